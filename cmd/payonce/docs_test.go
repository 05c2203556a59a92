package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var shellBlocks = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// Every command line of payonce that a page shows is one that payonce takes.
// What the commands do has tests of its own.
func TestCommandLinesOfThePages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	lines := 0
	for _, page := range append(pages, "../../README.md", "../../README.zh-CN.md") {
		content, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range shellBlocks.FindAllStringSubmatch(string(content), -1) {
			for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
				args, ok := payonceLine(t, line)
				if !ok {
					continue
				}
				lines++
				what := page + ": " + line
				command, rest, err := newRoot().Find(args)
				require.NoError(t, err, what)
				require.True(t, command.Runnable(), what)
				require.NoError(t, command.ParseFlags(rest), what)
				require.NoError(t, command.ValidateArgs(command.Flags().Args()), what)
			}
		}
	}
	require.Greater(t, lines, 10)
}

// payonceLine splits a line that calls payonce as the shell does.
func payonceLine(t *testing.T, line string) ([]string, bool) {
	t.Helper()
	words := regexp.MustCompile(`^(?:[A-Z0-9_]+=\S* )*payonce ([^|>;&]*)`).FindStringSubmatch(strings.TrimSpace(line))
	if words == nil {
		return nil, false
	}
	split := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\n' "+words[1])
	split.Env = []string{"PATH=" + os.Getenv("PATH"), "PAYONCE_DATABASE_URL=postgres://127.0.0.1/payonce"}
	output, err := split.Output()
	require.NoError(t, err, line)
	return strings.Split(strings.TrimSuffix(string(output), "\n"), "\n"), true
}
