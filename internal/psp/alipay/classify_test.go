package alipay

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/smartwalle/alipay/v3"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/psp"
)

// The table of docs/psp/alipay.md is the table of this package.
func TestDocumentedCodes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/psp/alipay.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Codes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([a-z_]+) \\| ([a-z_]+) \\| (.+) \\|$")
	documented := map[string]verdicts{}
	for _, cells := range row.FindAllStringSubmatch(section, -1) {
		require.NotContains(t, documented, cells[1], "listed twice")
		documented[cells[1]] = verdicts{charge: named(t, cells[2]), refund: named(t, cells[3])}
		require.NotEmpty(t, strings.TrimSpace(cells[4]), "the page of %s", cells[1])
	}
	require.Equal(t, codes, documented)
	require.GreaterOrEqual(t, len(codes), 20)
}

func named(t *testing.T, name string) psp.Verdict {
	t.Helper()
	for _, verdict := range []psp.Verdict{psp.InDoubt, psp.Terminal, psp.Transient} {
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
		problem sdk.Error
		verdict psp.Verdict
		code    string
	}{
		{charging, sdk.Error{Code: "40004", SubCode: "ACQ.SOMETHING_NEW"}, psp.InDoubt, "ACQ.SOMETHING_NEW"},
		{charging, sdk.Error{Code: "40006", SubCode: "isv.something-new"}, psp.InDoubt, "isv.something-new"},
		{charging, sdk.Error{Code: "50000"}, psp.InDoubt, "50000"},
		{charging, sdk.Error{Code: "40004"}, psp.InDoubt, "40004"},
		{charging, sdk.Error{}, psp.InDoubt, ""},
		{charging, sdk.Error{Code: "40005"}, psp.Transient, "40005"},
		{charging, sdk.Error{Code: "40004", SubCode: codeTradeNotExist}, psp.InDoubt, codeTradeNotExist},
		{refunding, sdk.Error{Code: "40004", SubCode: codeTradeNotExist}, psp.Terminal, codeTradeNotExist},
		{asking, sdk.Error{Code: "40004", SubCode: codeTradeNotExist}, psp.NotFound, codeTradeNotExist},
		{refunding, sdk.Error{Code: "40004", SubCode: "ACQ.REFUND_CHARGE_ERROR"}, psp.InDoubt, "ACQ.REFUND_CHARGE_ERROR"},
	} {
		t.Run(fmt.Sprintf("%d %s", test.op, test.code), func(t *testing.T) {
			t.Parallel()
			result := classified(test.op, test.problem)
			require.Equal(t, test.verdict, result.Verdict)
			require.Equal(t, test.code, result.Code)
		})
	}
}
