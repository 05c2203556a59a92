package proxy

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/go-openapi/jsonpointer"
	"github.com/gowebpki/jcs"
)

// maxPath is the longest request path, in characters, that guard.claim takes.
const maxPath = 2048

// requestPath is method and path as guard.claim takes them. One that is too
// long goes by its hash.
func requestPath(r *http.Request) string {
	path := r.Method + " " + r.URL.EscapedPath()
	if len(path) > maxPath {
		return "sha256:" + digest(path)
	}
	return path
}

// fingerprint is what has to be the same on every retry, besides method and
// path: the query and the body, or what the rule takes of it. With no query
// and Raw it is the SHA-256 of the body. A body that is not JSON, or whose
// meaning readers of JSON do not agree on, counts byte by byte in each mode.
func (r *Rule) fingerprint(query string, body []byte) []byte {
	form := ""
	if r.Fingerprint != Raw {
		if canonical, err := r.canonical(body); err == nil {
			form, body = string(r.Fingerprint), canonical
		}
	}
	sum := sha256.Sum256(body)
	if form == "" && query == "" {
		return sum[:]
	}
	both := sha256.New()
	_, _ = fmt.Fprintf(both, "%s %d %s %s", form, len(query), query, sum[:])
	return both.Sum(nil)
}

// canonical is the body, or the chosen fields of it, in the form of RFC 8785.
func (r *Rule) canonical(body []byte) ([]byte, error) {
	value, err := exactJSON(body)
	if err != nil {
		return nil, err
	}
	if r.Fingerprint == JSONFields {
		if body, err = chosen(value, r.FingerprintFields); err != nil {
			return nil, err
		}
	}
	canonical, err := jcs.Transform(body)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return canonical, nil
}

// chosen is an object of the fields that are there, named by their pointers. A
// field that is not there differs from one that is null.
func chosen(value any, pointers []string) ([]byte, error) {
	fields := map[string]any{}
	for _, text := range pointers {
		pointer, err := jsonpointer.New(text)
		if err != nil {
			return nil, fmt.Errorf("JSON pointer %s: %w", text, err)
		}
		if field, _, err := pointer.Get(value); err == nil {
			fields[text] = field
		}
	}
	encoded, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode the chosen fields: %w", err)
	}
	return encoded, nil
}

func checkPointer(text string) error {
	if _, err := jsonpointer.New(text); err != nil || text == "" {
		return fmt.Errorf("fingerprint_fields: %q is no JSON pointer such as /amount", text)
	}
	return nil
}
