// Package money holds amounts the way payonce stores them: an integer count of
// minor units and an ISO 4217 currency, never a float.
package money

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/text/currency"
)

// Money is an amount in minor units (fen, cents, yen) of one currency.
type Money struct {
	// Amount counts minor units of Currency.
	Amount int64
	// Currency is an ISO 4217 code in capitals, such as CNY.
	Currency string
}

// Exponent tells how many decimals the currency has (ISO 4217: CNY 2, JPY 0,
// KWD 3). It fails on a code that ISO 4217 does not list.
func Exponent(code string) (int, error) {
	if len(code) != 3 || code != strings.ToUpper(code) {
		return 0, fmt.Errorf("currency %q is not a three-letter ISO 4217 code in capitals", code)
	}
	unit, err := currency.ParseISO(code)
	if err != nil {
		return 0, fmt.Errorf("currency %q is not listed in ISO 4217", code)
	}
	scale, _ := currency.Standard.Rounding(unit)
	return scale, nil
}

// Decimal writes the amount in major units with exactly the currency's
// decimals: 1050 CNY is "10.50", 1050 JPY is "1050".
func (m Money) Decimal() (string, error) {
	scale, err := Exponent(m.Currency)
	if err != nil {
		return "", err
	}
	digits := strconv.FormatInt(m.Amount, 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	if scale == 0 {
		return sign + digits, nil
	}
	if pad := scale + 1 - len(digits); pad > 0 {
		digits = strings.Repeat("0", pad) + digits
	}
	cut := len(digits) - scale
	return sign + digits[:cut] + "." + digits[cut:], nil
}

// String writes the amount for people: 10.50 CNY.
func (m Money) String() string {
	decimal, err := m.Decimal()
	if err != nil {
		return fmt.Sprintf("%d minor units %s", m.Amount, m.Currency)
	}
	return decimal + " " + m.Currency
}

// ParseDecimal reads an amount in major units, such as "10.5" or "10.50" CNY.
// It refuses signs, exponents, spaces, more decimals than the currency has and
// amounts past the largest int64, so that nothing is ever rounded.
func ParseDecimal(text, code string) (Money, error) {
	scale, err := Exponent(code)
	if err != nil {
		return Money{}, err
	}
	whole, frac, hasPoint := strings.Cut(text, ".")
	if whole == "" || (hasPoint && frac == "") || !isDigits(whole) || !isDigits(frac) {
		return Money{}, fmt.Errorf("amount %q is not a plain decimal number", text)
	}
	if len(frac) > scale {
		return Money{}, fmt.Errorf("amount %q has more than the %d decimals of %s", text, scale, code)
	}
	minor, err := strconv.ParseInt(whole+frac+strings.Repeat("0", scale-len(frac)), 10, 64)
	if err != nil {
		return Money{}, fmt.Errorf("amount %q %s does not fit in 64 bits of minor units", text, code)
	}
	return Money{Amount: minor, Currency: code}, nil
}

func isDigits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}
