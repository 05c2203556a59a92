package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// errNotExact means that two readers of a JSON text may see different values.
var errNotExact = errors.New("not JSON that all readers read alike")

const (
	// maxDepth bounds how deep arrays and objects may nest.
	maxDepth = 200
	// maxDigits is how many significant digits every IEEE double keeps.
	maxDigits = 15
	// leastNormal is the smallest positive number with full precision.
	leastNormal = 0x1p-1022
)

// exactJSON reads a JSON text. It refuses what I-JSON (RFC 7493) advises
// against and what a reader may round or drop, since two such texts that mean
// different amounts would have one canonical form: a name that stands twice, a
// number of more than 15 digits, text that is not UTF-8.
func exactJSON(body []byte) (any, error) {
	if !utf8.Valid(body) {
		return nil, errNotExact
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	value, err := exactValue(decoder, 0)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotExact
	}
	return value, nil
}

func exactValue(decoder *json.Decoder, depth int) (any, error) {
	token, err := decoder.Token()
	if err != nil || depth > maxDepth {
		return nil, errNotExact
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			return exactArray(decoder, depth)
		}
		return exactObject(decoder, depth)
	case json.Number:
		return token, exactNumber(token)
	case string:
		return token, exactText(token)
	default:
		return token, nil
	}
}

func exactArray(decoder *json.Decoder, depth int) (any, error) {
	values := []any{}
	for decoder.More() {
		value, err := exactValue(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, closed(decoder)
}

func exactObject(decoder *json.Decoder, depth int) (any, error) {
	values := map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, errNotExact
		}
		if _, twice := values[name]; twice || exactText(name) != nil {
			return nil, errNotExact
		}
		if values[name], err = exactValue(decoder, depth+1); err != nil {
			return nil, err
		}
	}
	return values, closed(decoder)
}

func closed(decoder *json.Decoder) error {
	if _, err := decoder.Token(); err != nil {
		return errNotExact
	}
	return nil
}

// exactText refuses a text in which the decoder had to put something else for
// half of a surrogate pair.
func exactText(text string) error {
	if strings.ContainsRune(text, utf8.RuneError) {
		return errNotExact
	}
	return nil
}

func exactNumber(number json.Number) error {
	mantissa, _, _ := strings.Cut(strings.ToLower(number.String()), "e")
	digits := strings.TrimLeft(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
	if len(digits) > maxDigits {
		return errNotExact
	}
	double, err := number.Float64()
	if err != nil || (digits != "" && math.Abs(double) < leastNormal) {
		return errNotExact
	}
	return nil
}
