package money_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/money"
)

func TestDecimalBothWays(t *testing.T) {
	t.Parallel()
	tests := []struct {
		money money.Money
		text  string
	}{
		{money.Money{Amount: 1, Currency: "CNY"}, "0.01"},
		{money.Money{Amount: 10, Currency: "CNY"}, "0.10"},
		{money.Money{Amount: 100, Currency: "CNY"}, "1.00"},
		{money.Money{Amount: 1050, Currency: "USD"}, "10.50"},
		{money.Money{Amount: 1050, Currency: "JPY"}, "1050"},
		{money.Money{Amount: 1050, Currency: "KRW"}, "1050"},
		{money.Money{Amount: 1050, Currency: "VND"}, "1050"},
		{money.Money{Amount: 1, Currency: "KWD"}, "0.001"},
		{money.Money{Amount: 12345, Currency: "BHD"}, "12.345"},
		{money.Money{Amount: math.MaxInt64, Currency: "CNY"}, "92233720368547758.07"},
		{money.Money{Amount: math.MaxInt64, Currency: "JPY"}, "9223372036854775807"},
	}
	for _, test := range tests {
		t.Run(test.text+" "+test.money.Currency, func(t *testing.T) {
			t.Parallel()
			text, err := test.money.Decimal()
			require.NoError(t, err)
			require.Equal(t, test.text, text)
			parsed, err := money.ParseDecimal(text, test.money.Currency)
			require.NoError(t, err)
			require.Equal(t, test.money, parsed)
		})
	}
}

func TestParseDecimalTakesFewerDecimals(t *testing.T) {
	t.Parallel()
	parsed, err := money.ParseDecimal("10.5", "CNY")
	require.NoError(t, err)
	require.Equal(t, money.Money{Amount: 1050, Currency: "CNY"}, parsed)
}

func TestParseDecimalRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", ".", "1.", ".5", "-1", "+1", "1e3", " 1", "1 ", "1,00", "0.001", "1.005", "0x10", "NaN", "92233720368547758.08"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			_, err := money.ParseDecimal(text, "CNY")
			require.Error(t, err)
		})
	}
	_, err := money.ParseDecimal("1.0", "JPY")
	require.Error(t, err)
}

func TestExponentRefusesWhatIsNoCurrency(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"", "cny", "CN", "CNYY", "ABC", "12A"} {
		_, err := money.Exponent(code)
		require.Error(t, err, code)
	}
}
