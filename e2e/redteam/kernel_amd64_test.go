package redteam

import "golang.org/x/sys/unix"

// archRows are calls that only this architecture has.
func archRows() []syscallRow {
	return []syscallRow{
		{name: "iopl", nr: unix.SYS_IOPL, args: args(3)},
		{name: "ioperm", nr: unix.SYS_IOPERM, args: args(0x80, 1, 1)},
		{name: "modify_ldt", nr: unix.SYS_MODIFY_LDT, args: args(0, "z:16", 16), free: true},
	}
}

// archTries are attempts that only this architecture has.
func archTries(r *rig) []attempt {
	return []attempt{
		r.attack("numbers of x32", says([]string{"ended by SIGSYS"}, "x32"), "foreign", "x32"),
		r.attack("the gate of 32-bit programs", says([]string{"ended by SIGSYS", "fault"}, "int80"), "foreign", "int80"),
	}
}
