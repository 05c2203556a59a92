package stripe

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/psp"
)

// maxUnits is the largest amount: eight digits (docs.stripe.com/currencies).
const maxUnits = 99_999_999

// How Stripe counts, by docs.stripe.com/currencies: two decimals, unless the
// currency stands here.
var (
	zeroDecimal = []string{
		"BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF",
	}
	// threeDecimal amounts need a 0 as their last digit.
	threeDecimal = []string{"BHD", "JOD", "KWD", "OMR", "TND"}
	// twoForZero have no decimals, and are counted with two that must be 00.
	twoForZero = []string{"ISK", "UGX"}
)

func stripeDecimals(currency string) int {
	switch {
	case slices.Contains(zeroDecimal, currency):
		return 0
	case slices.Contains(threeDecimal, currency):
		return 3
	default:
		return 2
	}
}

// factor is how many of Stripe's units one of our minor units is, or an error
// where Stripe would read another amount than was meant.
func factor(currency string) (int64, error) {
	ours, err := money.Exponent(currency)
	if err != nil {
		return 0, fmt.Errorf("read the decimals of a currency: %w", err)
	}
	theirs := stripeDecimals(currency)
	switch {
	case ours == 0 && slices.Contains(twoForZero, currency):
		return 100, nil
	case ours != theirs:
		return 0, fmt.Errorf("currency %s has %d decimals here and %d at stripe", currency, ours, theirs)
	default:
		return 1, nil
	}
}

// units converts to Stripe's units.
func units(m money.Money) (int64, error) {
	each, err := factor(m.Currency)
	if err != nil {
		return 0, err
	}
	if m.Amount > math.MaxInt64/each {
		return 0, fmt.Errorf("amount %d %s is too large", m.Amount, m.Currency)
	}
	return m.Amount * each, nil
}

// minor converts from Stripe's units and spelling of the currency.
func minor(amount int64, stripeCurrency string) (money.Money, error) {
	currency := strings.ToUpper(stripeCurrency)
	each, err := factor(currency)
	if err != nil {
		return money.Money{}, err
	}
	if amount%each != 0 {
		return money.Money{}, fmt.Errorf("stripe tells %d units of %s, which has no decimals", amount, currency)
	}
	return money.Money{Amount: amount / each, Currency: currency}, nil
}

// validateMoney refuses what Stripe would refuse, and what it would charge
// wrongly.
func validateMoney(m money.Money) error {
	if _, err := factor(m.Currency); err != nil {
		return &psp.FieldError{Field: "currency", Problem: "is not one that stripe and payonce count alike"}
	}
	amount, err := units(m)
	switch {
	case err != nil || amount < 1 || amount > maxUnits:
		return &psp.FieldError{Field: "amount", Problem: "must be above 0 and have at most 8 digits as stripe counts it"}
	case slices.Contains(threeDecimal, m.Currency) && amount%10 != 0:
		return &psp.FieldError{Field: "amount", Problem: "must have 0 as its last digit for stripe: " + m.Currency + " has three decimals"}
	}
	return nil
}
