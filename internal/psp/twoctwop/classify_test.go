package twoctwop

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
)

func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/psp/2c2p.md")
	require.NoError(t, err)
	return string(text)
}

func chapter(t *testing.T, title string) string {
	t.Helper()
	_, text, found := strings.Cut(documentation(t), "\n## "+title+"\n")
	require.True(t, found, title)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// The table of docs/psp/2c2p.md is the table of this package.
func TestDocumentedCodes(t *testing.T) {
	t.Parallel()
	section := chapter(t, "Codes")
	row := regexp.MustCompile("(?m)^\\| `([0-9]+)` \\| ([a-z_]+) \\| ([a-z_]+) \\| ([a-z_]+) \\| (\\[.+) \\|$")
	documented := map[string]verdicts{}
	for _, cells := range row.FindAllStringSubmatch(section, -1) {
		require.NotContains(t, documented, cells[1], "listed twice")
		documented[cells[1]] = verdicts{token: named(t, cells[2]), payment: named(t, cells[3]), refund: named(t, cells[4])}
		page, _, _ := strings.Cut(strings.TrimPrefix(cells[5], "["), "]")
		require.Contains(t, documentation(t), "\n["+page+"]: https://developer.2c2p.com/docs/", "the page of %s", cells[1])
	}
	require.Equal(t, codes, documented)
	require.GreaterOrEqual(t, len(codes), 100)
}

func TestDocumentedStatuses(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile("(?m)^\\| (`[A-Z0-9_]+`(?:, `[A-Z0-9_]+`)*) \\| (succeeded|pending|terminal) \\| .+ \\|$")
	documented := map[string]psp.Verdict{}
	for _, cells := range row.FindAllStringSubmatch(chapter(t, "Statuses of a refund"), -1) {
		for status := range strings.SplitSeq(cells[1], ", ") {
			documented[strings.Trim(status, "`")] = named(t, cells[2])
		}
	}
	require.Equal(t, statuses, documented)
}

func named(t *testing.T, name string) psp.Verdict {
	t.Helper()
	for _, verdict := range []psp.Verdict{
		psp.InDoubt, psp.Succeeded, psp.Pending, psp.Terminal, psp.Transient, psp.NotFound,
	} {
		if verdict.String() == name {
			return verdict
		}
	}
	require.Fail(t, "no verdict", name)
	return psp.InDoubt
}

func TestClassified(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		op      operation
		code    string
		verdict psp.Verdict
	}{
		{charging, "7777", psp.InDoubt}, {charging, "", psp.InDoubt}, {charging, "00", psp.InDoubt},
		{charging, "9042", psp.Transient}, {charging, "9059", psp.Terminal}, {charging, "4005", psp.InDoubt},
		{asking, "0000", psp.Succeeded}, {asking, "2002", psp.NotFound}, {asking, "4051", psp.Terminal},
		{asking, "9042", psp.InDoubt}, {asking, "9059", psp.InDoubt}, {asking, "7777", psp.InDoubt}, {asking, "00", psp.InDoubt},
		{refunding, "0000", psp.InDoubt}, {refunding, "16", psp.Terminal}, {refunding, "42", psp.Pending}, {refunding, "77", psp.InDoubt},
		{askingRefund, "16", psp.NotFound}, {askingRefund, "44", psp.InDoubt}, {askingRefund, "00", psp.InDoubt},
	} {
		result := classified(test.op, test.code, "description")
		require.Equal(t, test.verdict, result.Verdict, "%+v", test)
		require.Equal(t, test.code, result.Code)
		require.Equal(t, "description", result.Message)
	}
}

// Nothing is transient that says something about a payment: a payment that may
// have been made must not be made anew.
func TestOnlyTheGateIsTransient(t *testing.T) {
	t.Parallel()
	for code, means := range codes {
		require.NotEqual(t, psp.Transient, means.payment, code)
		require.NotEqual(t, psp.NotFound, means.token, code)
		require.NotEqual(t, psp.NotFound, means.refund, code)
		if means.token == psp.Transient || means.refund == psp.Transient {
			require.Equal(t, psp.InDoubt, means.payment, code)
		}
	}
}
