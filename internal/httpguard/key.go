package httpguard

import (
	"net/http"
	"strings"
)

const maxKeyLength = 255

// Key reads the Idempotency-Key header: a bare value, or the quoted
// string of draft-ietf-httpapi-idempotency-key-header (RFC 8941, section
// 3.3.3). "abc" and abc are the same key.
func Key(header http.Header) (string, *Problem) {
	values := header.Values("Idempotency-Key")
	if len(values) != 1 {
		refused := KeyMissing.Problem()
		if len(values) > 1 {
			refused = KeyRepeated.Problem()
		}
		return "", &refused
	}
	key, ok := values[0], true
	if strings.HasPrefix(key, `"`) {
		key, ok = unquote(key)
	}
	if !ok || key == "" || len(key) > maxKeyLength || !Printable(key) {
		refused := KeyInvalid.Problem()
		return "", &refused
	}
	return key, nil
}

// unquote reads a structured-field string: only \" and \\ are escapes, and
// nothing may follow the closing quote.
func unquote(quoted string) (string, bool) {
	var key strings.Builder
	for i := 1; i < len(quoted); i++ {
		switch c := quoted[i]; c {
		case '"':
			return key.String(), i == len(quoted)-1
		case '\\':
			i++
			if i == len(quoted) || (quoted[i] != '"' && quoted[i] != '\\') {
				return "", false
			}
			key.WriteByte(quoted[i])
		default:
			key.WriteByte(c)
		}
	}
	return "", false
}

// Printable reports whether text is printable ASCII.
func Printable(text string) bool {
	for i := range len(text) {
		if text[i] < 0x20 || text[i] > 0x7e {
			return false
		}
	}
	return true
}
