package doctor

import (
	"os"
	"path/filepath"

	"boxmaker/bxctl/internal/setup"
)

// chat reports whether a chat is set up: then gatewayd is a role. How it is, its
// rows in brokerd's status say.
func (x *exam) chat() bool {
	_, err := os.Lstat(filepath.Join(x.Layout.Config, setup.FileGateway))
	return err == nil
}
