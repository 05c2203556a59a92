package demo

import (
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// options of a demo on a server of the tests, with the program as it is built.
func options(t *testing.T) Options {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "payonce")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/payonce").CombinedOutput()
	require.NoError(t, err, "%s", output)
	return Options{Binary: binary, DatabaseURL: pgtest.New(t).URL, Seed: 1, Progress: io.Discard}
}

func TestWithoutAndWithTheGuard(t *testing.T) {
	t.Parallel()
	result, err := Run(t.Context(), options(t))
	require.NoError(t, err)
	require.Empty(t, result.Broken)
	require.Equal(t, 22, result.Guarded.Customers)
	require.Positive(t, result.Unguarded.DoubleCharges)
	require.NotEmpty(t, result.Unguarded.Broken())
}

// Whatever a guard gets wrong, the judge sees it; so it does in a run with a
// database that sells twice.
func TestABrokenGuardIsSeen(t *testing.T) {
	t.Parallel()
	for name, tally := range map[string]Tally{
		"double charge": {Customers: 1, Charges: 2, DoubleCharges: 1, Orders: 1, StockSold: 1, Mails: 1},
		"lost":          {Customers: 1, Charges: 1, Orders: 1, StockSold: 1, Mails: 1, Lost: 1},
		"two mails":     {Customers: 1, Charges: 1, Orders: 1, StockSold: 1, Mails: 2},
		"other bytes":   {Customers: 1, Charges: 1, Orders: 1, StockSold: 1, Mails: 1, Unequal: 1},
	} {
		require.NotEmpty(t, tally.Broken(), name)
	}
	require.Empty(t, Tally{Customers: 1, Charges: 1, Orders: 1, StockSold: 1, Mails: 1}.Broken())
	broken := options(t)
	broken.tamper = `CREATE FUNCTION public.sell_twice() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN IF new.on_hand < old.on_hand THEN new.on_hand := new.on_hand - 1; END IF; RETURN new; END $$;
	CREATE TRIGGER sell_twice BEFORE UPDATE ON payments.inventory FOR EACH ROW EXECUTE FUNCTION public.sell_twice()`
	result, err := Run(t.Context(), broken)
	require.NoError(t, err)
	require.NotEmpty(t, result.Broken)
}
