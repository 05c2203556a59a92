package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/version"
)

// TestInstall installs the programs as a user does, with a release's name
// stamped in, and asks each what it is.
func TestInstall(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	install := exec.CommandContext(t.Context(), "go", "install",
		"-ldflags", "-X github.com/payonce/payonce/internal/version.stamp=v9.8.7", "./cmd/...")
	install.Dir = "../.."
	install.Env = append(os.Environ(), "GOBIN="+bin)
	output, err := install.CombinedOutput()
	require.NoError(t, err, "%s", output)
	programs, err := filepath.Glob(filepath.Join(bin, "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(bin, "payonce"), filepath.Join(bin, "pspsim")}, programs)

	run := func(program string, args ...string) string {
		output, err := exec.CommandContext(t.Context(), filepath.Join(bin, program), args...).Output()
		require.NoError(t, err, "%s %v", program, args)
		return string(output)
	}
	var got struct {
		version.Info
		Schema int `json:"schema"`
	}
	require.NoError(t, json.Unmarshal([]byte(run("payonce", "version", "--json")), &got))
	require.Equal(t, "v9.8.7", got.Version)
	require.Positive(t, got.Schema)
	require.NotEmpty(t, got.Go)
	require.Equal(t, "payonce "+got.String()+"\n", run("payonce", "--version"))
	require.Equal(t, "pspsim "+got.String()+"\n", run("pspsim", "--version"))
}

// A program that was built without a stamp tells one too.
func TestVersionCommand(t *testing.T) {
	t.Parallel()
	root := newRoot()
	var output strings.Builder
	root.SetOut(&output)
	root.SetArgs([]string{"version"})
	require.NoError(t, root.ExecuteContext(t.Context()))
	require.Regexp(t, regexp.MustCompile(`^payonce \S+ \(.*go\S+, \w+/\w+\)\nschema version \d+\n$`), output.String())
}
