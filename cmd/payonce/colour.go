package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// colour is an SGR colour of a terminal. Each has two digits, so that cells of
// one column stay equally wide in a table that counts bytes.
type colour string

const (
	plain  colour = "39"
	red    colour = "31"
	yellow colour = "33"
	green  colour = "32"
)

// painter colours text for people.
type painter bool

// painterFor colours only what goes to a terminal, and nothing where NO_COLOR
// is set (https://no-color.org).
func painterFor(out io.Writer) painter {
	file, ok := out.(*os.File)
	return painter(ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd())))
}

func (p painter) paint(c colour, text string) string {
	if !p {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[39m"
}
