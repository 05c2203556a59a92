package twoctwop

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/payonce/payonce/internal/money"
)

// decimal is an amount as 2C2P writes it, a JSON number or a string, to the
// last digit.
type decimal string

// UnmarshalJSON implements json.Unmarshaler. What is no amount is found out by
// money, since not every answer has one to be read.
func (d *decimal) UnmarshalJSON(text []byte) error {
	if text[0] != '"' {
		*d = decimal(text)
		return nil
	}
	var digits string
	if err := json.Unmarshal(text, &digits); err != nil {
		return fmt.Errorf("2c2p: read an amount: %w", err)
	}
	*d = decimal(digits)
	return nil
}

// documentedDecimal is D (12,5): api-payment-token-request-parameter, whose
// example is 000000002500.90000.
var documentedDecimal = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,5})?$`)

// money reads the amount. Decimals past the currency's must be zeros.
func (d decimal) money(currency string) (money.Money, error) {
	text := string(d)
	if !documentedDecimal.MatchString(text) {
		return money.Money{}, errors.New("2c2p: an amount is not a decimal of up to 12 digits and 5 decimals")
	}
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return money.ParseDecimal(text, currency)
}
