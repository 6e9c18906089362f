package proto

import "errors"

// Messages of runner.sock: brokerd asks, runnerd starts containers.

// RunnerRequests is what brokerd may send to runnerd.
var RunnerRequests = union("runner request",
	func() Message { return new(Launch) },
	func() Message { return new(GetRunner) },
)

// RunnerEvents is what runnerd may send back; each ends the stream.
var RunnerEvents = union("runner event",
	func() Message { return new(Ended) },
	func() Message { return new(RunnerStatus) },
	func() Message { return new(Error) },
)

// Launch asks for one fresh container. It lives as long as the connection at
// most: when brokerd goes away, the whole container is killed.
type Launch struct {
	Call     string         `json:"call"`
	Entry    string         `json:"entry"` // tool whose entry point of toolkit is started
	Input    string         `json:"input"` // JSON text on the entry point's standard input
	Mounts   []Mount        `json:"mounts"`
	Hide     []string       `json:"hide,omitzero"` // paths in Mounts of which nothing may be seen
	Userland Userland       `json:"userland"`
	Root     string         `json:"root,omitzero"` // root file system, for UserlandRoot
	Door     string         `json:"door,omitzero"` // Unix socket, relative to the run folder, that becomes the way out
	Secrets  []LaunchSecret `json:"secrets"`
	Limits   Limits         `json:"limits"`
}

// Mount is one granted file or folder. It has the same path inside.
type Mount struct {
	Path  string `json:"path"`
	Write bool   `json:"write,omitzero"`
}

// LaunchSecret reaches the tool over an inherited descriptor.
type LaunchSecret struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Limits bound one call. Zero means no limit was granted, so that the default
// of runnerd holds; a granted limit that cannot be enforced ends the call.
type Limits struct {
	MS     int64 `json:"ms,omitzero"`
	Memory int64 `json:"memory,omitzero"` // bytes
	Output int64 `json:"output,omitzero"` // bytes
	PIDs   int64 `json:"pids,omitzero"`
}

// Ended says how the container ended.
type Ended struct {
	Reason  EndReason `json:"reason"`
	Exit    int       `json:"exit,omitzero"`    // status of the first process
	Output  []byte    `json:"output"`           // its standard output, base64
	Dropped int64     `json:"dropped,omitzero"` // bytes of output beyond the limit
	Detail  string    `json:"detail,omitzero"`  // of the runtime, for the log and the owner
	MS      int64     `json:"ms,omitzero"`
}

// GetRunner asks what runnerd can do here.
type GetRunner struct{}

// RunnerStatus answers [GetRunner]: "runtime", "memory limit", "pids limit"
// and what else was found when a container was tried.
type RunnerStatus struct {
	Version     string  `json:"version"`
	Runtime     string  `json:"runtime"` // crun, podman
	Running     int     `json:"running,omitzero"`
	Checks      []Check `json:"checks"`
	Confinement []Check `json:"confinement"`
}

// Validate checks identifiers and enums.
func (m *Launch) Validate() error {
	_, err := ParseCallID(m.Call)
	return errors.Join(err, CheckTool(m.Entry), m.Userland.Validate(),
		nonNegative(m.Limits.MS, m.Limits.Memory, m.Limits.Output, m.Limits.PIDs))
}

// Validate checks reason and signs.
func (m *Ended) Validate() error {
	return errors.Join(m.Reason.Validate(), nonNegative(m.Dropped, m.MS))
}

// Validate accepts the only value.
func (m *GetRunner) Validate() error { return nil }

// Validate checks the states.
func (m *RunnerStatus) Validate() error {
	errs := []error{nonNegative(int64(m.Running))}
	for _, c := range append(append([]Check{}, m.Checks...), m.Confinement...) {
		errs = append(errs, oneOf("check state", c.State, "ok", "failed", "skipped", "pending"))
	}
	return errors.Join(errs...)
}

// Tags.

func (*Launch) Tag() string       { return "launch" }
func (*GetRunner) Tag() string    { return "status" }
func (*Ended) Tag() string        { return "ended" }
func (*RunnerStatus) Tag() string { return "status" }
