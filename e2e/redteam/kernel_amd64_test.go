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

// oldBitRows are the calls that only this architecture has to set a file's mode.
func oldBitRows(at func(string) string) []syscallRow {
	const mode = 0o4755
	return []syscallRow{
		{name: "set-user-id by chmod", nr: unix.SYS_CHMOD, args: args(at("note.txt"), mode)},
		{name: "set-user-id by creat", nr: unix.SYS_CREAT, args: args(at("bit-5"), mode)},
		{name: "set-user-id by open", nr: unix.SYS_OPEN, args: args(at("bit-6"), unix.O_CREAT|unix.O_WRONLY, mode)},
		{name: "set-user-id by mknod", nr: unix.SYS_MKNOD, args: args(at("bit-7"), unix.S_IFREG|mode, 0)},
		{name: "set-group-id by mkdir", nr: unix.SYS_MKDIR, args: args(at("bit-8"), 0o2777)},
	}
}

// archTries are attempts that only this architecture has.
func archTries(r *rig) []attempt {
	return []attempt{
		r.attack("numbers of x32", says([]string{"ended by SIGSYS"}, "x32"), "foreign", "x32"),
		r.attack("the gate of 32-bit programs", says([]string{"ended by SIGSYS", "fault"}, "int80"), "foreign", "int80"),
	}
}
