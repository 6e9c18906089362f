package up

// MayUse asks the kernel whether a user without other groups may use path; mode
// is unix.R_OK, W_OK, X_OK or several. For a user other than this program's own
// it needs root.
func MayUse(path string, uid, mode uint32) error { return mayUse(path, uid, mode) }
