package fakemost

// What the server keeps and shows, with its members in its own order. Names of
// members and their kinds are compared with recordings of a real one.

// Post is a post.
type Post struct {
	ID           string         `json:"id"`
	CreateAt     int64          `json:"create_at"`
	UpdateAt     int64          `json:"update_at"`
	EditAt       int64          `json:"edit_at"`
	DeleteAt     int64          `json:"delete_at"`
	Pinned       bool           `json:"is_pinned"`
	UserID       string         `json:"user_id"`
	ChannelID    string         `json:"channel_id"`
	RootID       string         `json:"root_id"`
	OriginalID   string         `json:"original_id"`
	Message      string         `json:"message"`
	Type         string         `json:"type"`
	Props        map[string]any `json:"props"`
	Hashtags     string         `json:"hashtags"`
	FileIDs      []string       `json:"file_ids"`
	PendingID    string         `json:"pending_post_id"`
	HasReactions bool           `json:"has_reactions,omitempty"`
	RemoteID     string         `json:"remote_id"`
	ReplyCount   int            `json:"reply_count"`
	LastReplyAt  int64          `json:"last_reply_at"`
	Participants any            `json:"participants"`
	Metadata     map[string]any `json:"metadata,omitzero"`
}

// Reaction is an emoji on a post.
type Reaction struct {
	UserID    string `json:"user_id"`
	PostID    string `json:"post_id"`
	Emoji     string `json:"emoji_name"`
	CreateAt  int64  `json:"create_at"`
	UpdateAt  int64  `json:"update_at"`
	DeleteAt  int64  `json:"delete_at"`
	RemoteID  string `json:"remote_id"`
	ChannelID string `json:"channel_id"`
}

// A user as the server shows it to others.
type userView struct {
	ID             string            `json:"id"`
	CreateAt       int64             `json:"create_at"`
	UpdateAt       int64             `json:"update_at"`
	DeleteAt       int64             `json:"delete_at"`
	Name           string            `json:"username"`
	AuthData       *string           `json:"auth_data,omitempty"`
	AuthService    string            `json:"auth_service"`
	Email          string            `json:"email"`
	Nickname       string            `json:"nickname"`
	FirstName      string            `json:"first_name"`
	LastName       string            `json:"last_name"`
	Position       string            `json:"position"`
	Roles          string            `json:"roles"`
	NotifyProps    map[string]string `json:"notify_props,omitempty"`
	PasswordAt     int64             `json:"last_password_update,omitempty"`
	Locale         string            `json:"locale"`
	Timezone       map[string]string `json:"timezone"`
	RemoteID       *string           `json:"remote_id,omitempty"`
	Bot            bool              `json:"is_bot,omitempty"`
	BotDescription string            `json:"bot_description,omitempty"`
	NoWelcome      bool              `json:"disable_welcome_email"`
}

// Channel is a channel.
type Channel struct {
	ID            string `json:"id"`
	CreateAt      int64  `json:"create_at"`
	UpdateAt      int64  `json:"update_at"`
	DeleteAt      int64  `json:"delete_at"`
	TeamID        string `json:"team_id"`
	Type          string `json:"type"`
	DisplayName   string `json:"display_name"`
	Name          string `json:"name"`
	Header        string `json:"header"`
	Purpose       string `json:"purpose"`
	LastPostAt    int64  `json:"last_post_at"`
	Total         int    `json:"total_msg_count"`
	ExtraUpdateAt int64  `json:"extra_update_at"`
	CreatorID     string `json:"creator_id"`
	SchemeID      any    `json:"scheme_id"`
	Props         any    `json:"props"`
	Group         any    `json:"group_constrained"`
	Shared        any    `json:"shared"`
	TotalRoot     int    `json:"total_msg_count_root"`
	PolicyID      any    `json:"policy_id"`
	LastRootAt    int64  `json:"last_root_post_at"`
	Banner        any    `json:"banner_info"`
	Enforced      bool   `json:"policy_enforced"`
	Category      string `json:"default_category_name"`
}

type fileInfo struct {
	ID        string `json:"id"`
	UserID    string `json:"user_id"`
	PostID    string `json:"post_id,omitempty"`
	ChannelID string `json:"channel_id"`
	CreateAt  int64  `json:"create_at"`
	UpdateAt  int64  `json:"update_at"`
	DeleteAt  int64  `json:"delete_at"`
	Name      string `json:"name"`
	Extension string `json:"extension"`
	Size      int    `json:"size"`
	Mime      string `json:"mime_type"`
	Preview   any    `json:"mini_preview"`
	RemoteID  string `json:"remote_id"`
	Archived  bool   `json:"archived"`

	content []byte
}

// postList is a piece of a channel or a thread.
type postList struct {
	Order []string        `json:"order"`
	Posts map[string]Post `json:"posts"`
	Next  string          `json:"next_post_id"`
	Prev  string          `json:"prev_post_id"`
	More  *bool           `json:"has_next,omitempty"` // of threads only
	First int64           `json:"first_inaccessible_post_time"`
}

// apiError is how the server says no.
type apiError struct {
	ID        string `json:"id"`
	Message   string `json:"message"`
	Detail    string `json:"detailed_error"`
	RequestID string `json:"request_id,omitempty"`
	Status    int    `json:"status_code"`
}

func (e *apiError) Error() string { return e.ID }

// The errors that were seen.
func refuse(status int, id, message string) *apiError {
	return &apiError{ID: id, Message: message, Status: status}
}

func errSession() *apiError {
	return refuse(401, "api.context.session_expired.app_error", "Invalid or expired session, please login again.")
}

func errRight() *apiError {
	return refuse(403, "api.context.permissions.app_error", "You do not have the appropriate permissions.")
}

func errNoPost() *apiError {
	return refuse(404, "app.post.get.app_error", "Unable to get the post.")
}

func errRoot() *apiError {
	return refuse(400, "api.post.create_post.root_id.app_error", "Invalid RootId parameter.")
}

func errParam(name string) *apiError {
	return refuse(400, "api.context.invalid_url_param.app_error", "Invalid or missing "+name+" parameter in request URL.")
}

func errBody(name string) *apiError {
	return refuse(400, "api.context.invalid_body_param.app_error", "Invalid or missing "+name+" in request body.")
}

func errLength() *apiError {
	return refuse(400, "model.post.is_valid.message_length.app_error", "Post Message property is longer than the maximum permitted length.")
}

// broadcast says to whom an event went.
type broadcast struct {
	OmitUsers    any    `json:"omit_users"`
	UserID       string `json:"user_id"`
	ChannelID    string `json:"channel_id"`
	TeamID       string `json:"team_id"`
	ConnectionID string `json:"connection_id"`
	OmitID       string `json:"omit_connection_id"`
	Sanitized    bool   `json:"contains_sanitized_data,omitempty"`
}
