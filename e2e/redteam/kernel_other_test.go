//go:build !amd64

package redteam

func archRows() []syscallRow { return nil }

func archTries(*rig) []attempt { return nil }

func oldBitRows(func(string) string) []syscallRow { return nil }
