package main

import (
	"errors"
	"fmt"
)

// The exit codes of the program.
const (
	exitFailed = 1
	// exitFound: a command that looks for something found it.
	exitFound = 2
	// exitRefused: what was asked for is not there, or was not done.
	exitRefused = 2
)

// exitError ends the program with a code; a nil error says nothing, since the
// command has printed what there is to say.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// exitCode tells with which code an error ends the program, and whether it is
// to be printed.
func exitCode(err error) (code int, silent bool) {
	var coded exitError
	if errors.As(err, &coded) {
		return coded.code, coded.err == nil
	}
	return exitFailed, false
}
