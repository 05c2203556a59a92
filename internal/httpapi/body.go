package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/money"
)

const (
	jsonType = "application/json"
	// maxBody bounds a request body, in bytes.
	maxBody = 64 << 10
	// maxText bounds a text field, in characters.
	maxText = 1024
)

// rawBody is a request body as it came, with its SHA-256.
type rawBody struct {
	hash []byte
}

// readObject reads the body as one JSON object. Its fields are read through
// fields, which remembers the first one that is wrong.
func readObject(w http.ResponseWriter, r *http.Request) (rawBody, *fields, *httpguard.Problem) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refused := httpguard.BodyTooLarge.Detail(fmt.Sprintf("At most %d bytes.", maxBody))
		return rawBody{}, nil, &refused
	case err != nil:
		refused := httpguard.BodyMalformed.Detail("The body could not be read to its end.")
		return rawBody{}, nil, &refused
	}
	values, err := parseObject(body)
	if err != nil {
		refused := httpguard.BodyMalformed.Detail(err.Error())
		return rawBody{}, nil, &refused
	}
	hash := sha256.Sum256(body)
	return rawBody{hash: hash[:]}, &fields{values: values}, nil
}

// parseObject splits a JSON object into its members. A member that stands
// twice is refused: which amount would be meant?
func parseObject(body []byte) (map[string]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, errors.New("the body is not a JSON object")
	}
	values := map[string]json.RawMessage{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, errors.New("the body is not valid JSON")
		}
		name, _ := token.(string)
		if _, twice := values[name]; twice {
			return nil, fmt.Errorf("the field %.64q stands twice", name)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, errors.New("the body is not valid JSON")
		}
		values[name] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, errors.New("the body is not valid JSON")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return values, nil
}

type need bool

const (
	required need = true
	optional need = false
)

// fields reads the members of a request's object, each once.
type fields struct {
	values map[string]json.RawMessage
	first  *httpguard.Problem
}

func (f *fields) refuse(name, wrong string) {
	if f.first == nil {
		f.first = invalidField(name, wrong)
	}
}

func (f *fields) take(name string, need need) (json.RawMessage, bool) {
	value, ok := f.values[name]
	delete(f.values, name)
	if !ok && need == required {
		f.refuse(name, "is missing")
	}
	return value, ok
}

func (f *fields) text(name string, need need) string {
	value, ok := f.take(name, need)
	if !ok {
		return ""
	}
	var text *string
	if err := json.Unmarshal(value, &text); err != nil || text == nil {
		f.refuse(name, "must be a string")
		return ""
	}
	if len([]rune(*text)) > maxText {
		f.refuse(name, fmt.Sprintf("must have at most %d characters", maxText))
	}
	if *text == "" && need == required {
		f.refuse(name, "must not be empty")
	}
	if !storable(*text) {
		f.refuse(name, "must not contain the character U+0000")
	}
	return *text
}

// storable reports whether PostgreSQL takes a text: it has no character U+0000.
func storable(text string) bool { return !strings.Contains(text, "\x00") }

// maxID bounds an order id or refund id: the out_trade_no of the providers.
const maxID = 64

// isID reports whether a text can be the id of an order, charge or refund. What
// cannot be need not be looked for, and PostgreSQL would not take all of it.
func isID(text string) bool { return text != "" && len(text) <= maxID && httpguard.Printable(text) }

// id reads a number that goes to providers and into paths.
func (f *fields) id(name string, need need) string {
	id := f.text(name, need)
	if id != "" && !isID(id) {
		f.refuse(name, "must have 1 to 64 printable ASCII characters")
	}
	return id
}

// maxAmount bounds an amount, in minor units: above it readers of JSON whose
// numbers are doubles read another one (RFC 8259, section 6).
const maxAmount = 1<<53 - 1

// amount reads minor units of a currency.
func (f *fields) amount() int64 {
	var amount int64
	value, ok := f.take("amount", required)
	if ok && json.Unmarshal(value, &amount) != nil {
		f.refuse("amount", "must be an integer: minor units of the currency")
	}
	if amount <= 0 {
		f.refuse("amount", "must be above 0: minor units of the currency")
	}
	if amount > maxAmount {
		f.refuse("amount", "must be at most 9007199254740991: minor units of the currency")
	}
	return amount
}

func (f *fields) money() money.Money {
	m := money.Money{Amount: f.amount(), Currency: f.text("currency", required)}
	if _, err := money.Exponent(m.Currency); err != nil {
		f.refuse("currency", "must be an ISO 4217 code in capitals")
	}
	return m
}

// rest returns the members that nobody has read: the provider's own fields,
// all of them strings.
func (f *fields) rest() map[string]string {
	others := make(map[string]string, len(f.values))
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		others[name] = f.text(name, optional)
	}
	return others
}

// refuseRest refuses members that this call does not know.
func (f *fields) refuseRest() {
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		f.refuse(name, "is not a field of this call")
	}
}

func (f *fields) refused() *httpguard.Problem { return f.first }

func invalidField(name, wrong string) *httpguard.Problem {
	p := fieldInvalid.Detail(name + " " + wrong + ".")
	p.Field = name
	return &p
}

func writeJSON(w http.ResponseWriter, payload any) {
	body, err := json.Marshal(payload)
	if err != nil {
		httpguard.WriteProblem(w, httpguard.InternalError.Problem())
		return
	}
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body)
}
