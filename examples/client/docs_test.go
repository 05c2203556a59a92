package client_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pspsim"
)

var update = flag.Bool("update", false, "write the code blocks of docs/client.md anew")

// page is docs/client.md.
const page = "../../docs/client.md"

// shown finds a file in the page: a comment that names it, then its content as
// a code block.
var shown = regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n+(```\\w*)\n(.*?)```\n")

func TestDocsShowThePrograms(t *testing.T) {
	t.Parallel()
	text := read(t, "docs/client.md")
	if *update {
		text = shown.ReplaceAllStringFunc(text, func(block string) string {
			parts := shown.FindStringSubmatch(block)
			return "<!-- file: " + parts[1] + " -->\n\n" + parts[2] + "\n" + read(t, parts[1]) + "```\n"
		})
		require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
	}
	found := map[string]string{}
	for _, parts := range shown.FindAllStringSubmatch(text, -1) {
		found[parts[1]] = parts[3]
	}
	require.Len(t, found, 4)
	for file, content := range found {
		require.Equal(t, read(t, file), content, "%s: go test ./examples/client -run Docs -update", file)
	}
}

// Each code that the page names is one of docs/problems.md.
func TestDocsNameKnownProblems(t *testing.T) {
	t.Parallel()
	problems := read(t, "docs/problems.md")
	codes := regexp.MustCompile("`([a-z]+_[a-z_]+)`").FindAllStringSubmatch(read(t, "docs/client.md"), -1)
	require.NotEmpty(t, codes)
	for _, code := range codes {
		switch name := code[1]; name {
		case "same_key", "new_key", "changed_request":
			require.Contains(t, problems, "| `"+name+"` |")
		case "charge_id", "next_action":
		default:
			require.Contains(t, problems, "\n## "+name+"\n")
		}
	}
}

// The command of the page pays, as it stands there.
func TestDocsCommand(t *testing.T) {
	t.Parallel()
	s := serve(t, pspsim.Options{})
	parts := regexp.MustCompile("(?s)```sh\n(export PAYONCE_URL=\\S+ PAYONCE_API_KEY=\\S+)\n(.*?)```").
		FindStringSubmatch(read(t, "docs/client.md"))
	require.NotNil(t, parts)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), "bash", "-c", `PATH=$1:$PATH; cd "$2" && eval "$3"`, "bash", root, t.TempDir(),
		`cp -R "$1/examples" . && `+parts[2])
	command.Env = append(os.Environ(), "PAYONCE_URL="+s.url, "PAYONCE_API_KEY="+apiKey)
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), `"status":"succeeded"`)
	s.charged(1)
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../..", file))
	require.NoError(t, err)
	return string(content)
}
