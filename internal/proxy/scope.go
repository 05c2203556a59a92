package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/golang-jwt/jwt/v5"
	"go.yaml.in/yaml/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/payonce/payonce/internal/httpguard"
)

// ScopeSource says where a request tells whose key it has.
type ScopeSource string

const (
	// FromHeader takes the hash of a header's value.
	FromHeader ScopeSource = "header"
	// FromJWT takes the hash of issuer and subject of a JWT that the gateway in
	// front has verified.
	FromJWT ScopeSource = "jwt"
	// FromFixed takes one scope for all requests.
	FromFixed ScopeSource = "fixed"
)

// Scope is where the scope of a key comes from: "header:X-Merchant-Id",
// "jwt:Authorization" or "fixed:shop". Credentials are stored as hashes only.
type Scope struct {
	From ScopeSource
	// Name is the header, or the fixed scope itself.
	Name string
}

// maxFixed bounds a fixed scope, in characters.
const maxFixed = 128

// UnmarshalYAML reads source and name with a colon between them.
func (s *Scope) UnmarshalYAML(node *yaml.Node) error {
	from, name, _ := strings.Cut(node.Value, ":")
	*s = Scope{From: ScopeSource(from), Name: name}
	switch s.From {
	case FromHeader, FromJWT:
		if httpguts.ValidHeaderFieldName(name) {
			s.Name = http.CanonicalHeaderKey(name)
			return nil
		}
	case FromFixed:
		if name != "" && len(name) <= maxFixed && httpguard.Printable(name) {
			return nil
		}
	}
	return fmt.Errorf("line %d: scope must be header:NAME, jwt:HEADER or fixed:VALUE, not %q", node.Line, node.Value)
}

// errNoScope means that a request does not tell whose key it has.
var errNoScope = errors.New("the request does not tell whose key it has")

// scope tells whose key the request has.
func (r *Rule) scope(service string, header http.Header) (string, error) {
	prefix := "proxy/" + service + "/"
	if r.Scope.From == FromFixed {
		return prefix + "fixed/" + r.Scope.Name, nil
	}
	values := header.Values(r.Scope.Name)
	switch {
	case len(values) > 1:
		return "", fmt.Errorf("%w: the header %s stands there more than once", errNoScope, r.Scope.Name)
	case len(values) == 1 && values[0] != "":
	case r.Anonymous:
		return prefix + "anonymous", nil
	default:
		return "", fmt.Errorf("%w: the header %s is missing", errNoScope, r.Scope.Name)
	}
	if r.Scope.From == FromHeader {
		return prefix + "header/" + digest(r.Scope.Name, values[0]), nil
	}
	issuer, subject, err := principal(values[0])
	if err != nil {
		return "", fmt.Errorf("%w: the header %s: %w", errNoScope, r.Scope.Name, err)
	}
	return prefix + "jwt/" + digest(issuer, subject), nil
}

// principal reads issuer and subject of a JWT. Its signature is not looked at:
// the gateway that passed it on has done that.
func principal(value string) (string, string, error) {
	token := value
	if scheme, rest, found := strings.Cut(value, " "); found && strings.EqualFold(scheme, "Bearer") {
		token = strings.TrimSpace(rest)
	}
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil {
		return "", "", errors.New("it is not a JWT")
	}
	if claims.Subject == "" {
		return "", "", errors.New("the JWT has no sub")
	}
	return claims.Issuer, claims.Subject, nil
}

// digest hashes texts so that no two lists of texts give the same.
func digest(texts ...string) string {
	sum := sha256.New()
	for _, text := range texts {
		sum.Write([]byte(strconv.Itoa(len(text)) + ":" + text))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
