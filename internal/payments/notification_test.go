package payments_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/psp"
)

// A notification over another amount or currency is never applied: not one
// over nothing, and no payment that tells no amount.
func TestOnlyTheOrdersOwnAmountPaysIt(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	service, err := payments.New(pool, nil, payments.DefaultLimits(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), charge, "o1", "alipay")
	require.NoError(t, err)
	tell := func(key string, event psp.Event, paid money.Money) payments.Effect {
		effect, err := service.Notify(t.Context(), "alipay", psp.Notification{
			Event: event, Key: key, OrderID: "o1", TradeNo: "t", Money: paid,
		})
		require.NoError(t, err)
		return effect
	}
	for key, paid := range map[string]money.Money{
		"another amount":   {Amount: 999, Currency: "CNY"},
		"no money":         {Amount: 0, Currency: "CNY"},
		"another currency": {Amount: 1000, Currency: "USD"},
		"untold":           {},
	} {
		require.Equal(t, payments.Recorded, tell(key, psp.EventPaid, paid), key)
	}
	require.Equal(t, payments.Applied, tell("waiting, untold", psp.EventWaiting, money.Money{}))
	require.Equal(t, payments.Applied, tell("right", psp.EventPaid, money.Money{Amount: 1000, Currency: "CNY"}))
	var cases int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM payments.cases WHERE kind = 'amount_mismatch'").Scan(&cases))
	require.Equal(t, 4, cases)
}
