package boot

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"boxmaker/internal/grant"
	"boxmaker/internal/secret"
)

// Folders are the places on disk, as the owner knows them.
type Folders struct {
	Audit, State, Grants, Secrets string
	Key                           secret.Key
}

// Held are the folders. Audit log and state are opened before the process gives
// up its rights; grants, secrets and key are named, and read again and again.
type Held struct {
	Audit, State *os.Root

	at  Folders
	uid int // dropped to; 0: none
}

// Hold opens the folders. uid is the user that brokerd will be, 0 if it stays
// what it is.
func Hold(at Folders, uid int) (*Held, error) {
	h := &Held{at: at, uid: uid}
	var err error
	if h.Audit, err = os.OpenRoot(at.Audit); err != nil {
		return nil, fmt.Errorf("the folder of the audit log cannot be opened: %w (see runbook: brokerd-state)", err)
	}
	if h.State, err = os.OpenRoot(at.State); err != nil {
		return nil, errors.Join(fmt.Errorf("the folder of brokerd's state cannot be opened: %w (see runbook: brokerd-state)", err), h.Close())
	}
	return h, nil
}

// Close closes the folders.
func (h *Held) Close() error {
	var errs []error
	for _, r := range []*os.Root{h.Audit, h.State} {
		if r != nil {
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(errs...)
}

// ReadOnly are the folders that brokerd reads from.
func (h *Held) ReadOnly() []string {
	dirs := []string{h.at.Grants, h.at.Secrets}
	if h.at.Key.File != "" {
		dirs = append(dirs, filepath.Dir(h.at.Key.File))
	}
	return dirs
}

// Grants is the folder of the grants. Nothing in the folders own can be granted.
func (h *Held) Grants(own ...string) *grant.Dir { return grant.Open(h.at.Grants, own...) }

// Secrets says where the store and its key are.
func (h *Held) Secrets() secret.Config {
	return secret.Config{Dir: h.at.Secrets, Key: h.at.Key, Owner: h.uid}
}

// Names gives the users' names for records: "me (uid 1000)". They are looked up
// now, since that is not possible in a confined process.
func Names(known ...uint32) func(uid uint32) string {
	names := map[uint32]string{}
	for _, uid := range known {
		if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
			names[uid] = u.Username
		}
	}
	return func(uid uint32) string {
		if n := names[uid]; n != "" {
			return fmt.Sprintf("%s (uid %d)", n, uid)
		}
		return fmt.Sprintf("uid %d", uid)
	}
}
