// Package walltest holds the walls between the programs that the compiler does
// not: what each binary may link, what a role's folder may contain, what a
// source file may import and how long it may be, and that every runbook key
// has its section.
//
// Go's rule for "internal" folders already refuses every import from one role
// into another. The tests here bound the rest. Each check is a function over a
// module's folder, and is itself tested on small modules that break it.
//
// It has tests only and nothing to import. It does not look into third-party
// code: which modules a program links is a decision, see docs/dependencies.md.
package walltest
