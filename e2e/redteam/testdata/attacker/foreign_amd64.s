#include "textflag.h"

// getpid by the gate of 32-bit programs
TEXT ·int80(SB), NOSPLIT, $0-0
	MOVL $20, AX
	INT  $0x80
	RET
