package mattermost

import (
	"context"
	"errors"
)

// Run keeps a connection for events and hands them to tell, one at a time and in
// order. tell must not block for long: the server drops a client that does not
// read. Run returns when ctx ends, with its error, or with an error for which
// TokenRefused holds.
func (c *Client) Run(ctx context.Context, tell func(Event)) error {
	return errors.ErrUnsupported
}
