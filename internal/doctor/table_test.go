package doctor

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var row = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (problem|warning|note) \\| (.+) \\| (.+) \\|$")

// The table of docs/operations.md says what the doctor says.
func TestTheManualHasEveryFinding(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	found := map[string]string{}
	for _, match := range row.FindAllStringSubmatch(string(page), -1) {
		found[match[1]] = match[0]
	}
	for _, code := range Codes() {
		e := catalogue[code]
		cell := func(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
		require.Equal(t, fmt.Sprintf("| `%s` | %s | %s | %s |", code, e.severity, cell(e.why), cell(e.do)), found[string(code)])
		delete(found, string(code))
	}
	require.Empty(t, found, "rows of findings that do not exist")
}
