package testkit

import "os"

// peers is who may connect to a fake: the user that runs the test.
func peers() []uint32 { return []uint32{uint32(os.Getuid())} }
