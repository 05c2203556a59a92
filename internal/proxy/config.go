package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"go.yaml.in/yaml/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/payonce/payonce/internal/httpguard"
)

// Mode says whether a route asks for a key.
type Mode string

const (
	// Required refuses a request without a key.
	Required Mode = "required"
	// Optional guards a request that has a key and passes on any other.
	Optional Mode = "optional"
	// Off passes everything on.
	Off Mode = "off"
)

// UnmarshalYAML reads one of the three words.
func (m *Mode) UnmarshalYAML(node *yaml.Node) error {
	*m = Mode(node.Value)
	return oneOf(node, "guard", *m, Required, Optional, Off)
}

// Fingerprint says what of a body has to be the same on a retry.
type Fingerprint string

const (
	// Raw takes every byte of the body.
	Raw Fingerprint = "raw"
	// CanonicalJSON takes the body in the form of RFC 8785, so that spaces and
	// the order of members do not count.
	CanonicalJSON Fingerprint = "json"
	// JSONFields takes the members that fingerprint_fields names, in the form of RFC 8785.
	JSONFields Fingerprint = "fields"
)

// UnmarshalYAML reads one of the three words.
func (f *Fingerprint) UnmarshalYAML(node *yaml.Node) error {
	*f = Fingerprint(node.Value)
	return oneOf(node, "fingerprint", *f, Raw, CanonicalJSON, JSONFields)
}

func oneOf[T ~string](node *yaml.Node, name string, got T, words ...T) error {
	if slices.Contains(words, got) {
		return nil
	}
	return fmt.Errorf("line %d: %s must be one of %v, not %q", node.Line, name, words, got)
}

// Rule is how the requests of a route are guarded.
type Rule struct {
	Guard Mode `yaml:"guard"`
	// KeyTTL is how long an answer is replayed; at least Lease, at most 3650 days.
	KeyTTL time.Duration `yaml:"key_ttl"`
	// Lease is how long a claim outlives a proxy that died; above 0, at most a
	// day. It is extended for as long as the upstream works.
	Lease time.Duration `yaml:"lease"`
	// Timeout bounds the upstream's work, to the end of its answer or to the
	// limit up to which answers are stored.
	Timeout time.Duration `yaml:"timeout"`

	Fingerprint       Fingerprint `yaml:"fingerprint"`
	FingerprintFields []string    `yaml:"fingerprint_fields"`

	Scope Scope `yaml:"scope"`
	// Anonymous lets requests without the scope's header share one scope.
	Anonymous bool `yaml:"anonymous"`

	// StoreHeaders are stored besides the usual ones.
	StoreHeaders []string `yaml:"store_headers"`
	// AnswerLimit is the largest body, in bytes, that is stored.
	AnswerLimit int64 `yaml:"answer_limit"`
	// RequestLimit is the largest request body, in bytes, that is taken.
	RequestLimit int64 `yaml:"request_limit"`

	// UpstreamIdempotent promises that the upstream itself does the work of one
	// key once, so that work in doubt may be sent to it again.
	UpstreamIdempotent bool `yaml:"upstream_idempotent"`
	// Ends changes what an end of the upstream's work means: a status ("500"),
	// a class ("5xx"), "cut" or "timeout".
	Ends map[string]Meaning `yaml:"ends"`
}

// Route is the rule for some methods of some paths.
type Route struct {
	// Path is a pattern such as /v1/charges/{id} or /v1/{rest:.*}.
	Path string `yaml:"path"`
	// Methods that the route is for; none means every method.
	Methods []string `yaml:"methods"`
	Rule    `yaml:",inline"`
}

// Config is what a routes file says.
type Config struct {
	// Service keeps the keys of several proxied services in one database apart.
	Service string `yaml:"service"`
	// PreserveHost passes on the Host that the client named.
	PreserveHost bool `yaml:"preserve_host"`
	// TrustForwarded passes on the X-Forwarded headers of a gateway in front.
	TrustForwarded bool `yaml:"trust_forwarded"`
	// Defaults apply to what no route matches, and fill what a route leaves out.
	Defaults Rule `yaml:"defaults"`
	// Routes are tried in this order; the first that matches counts.
	Routes []Route `yaml:"routes"`
}

// DefaultConfig guards every request that may change something. A caller's
// keys are told from another's by the credential that it sends.
func DefaultConfig() Config {
	return Config{
		Service: "upstream",
		Defaults: Rule{
			Guard: Required, KeyTTL: 24 * time.Hour, Lease: time.Minute, Timeout: 30 * time.Second, Fingerprint: Raw,
			Scope: Scope{From: FromHeader, Name: "Authorization"}, Anonymous: true,
			AnswerLimit: 8 << 20, RequestLimit: 1 << 20,
		},
	}
}

// ParseConfig reads a routes file, YAML. An unknown name or a wrong value is
// an error that tells its line.
func ParseConfig(text []byte) (Config, error) {
	strict := yaml.NewDecoder(bytes.NewReader(text))
	strict.KnownFields(true)
	var known Config
	switch err := strict.Decode(&known); {
	case errors.Is(err, io.EOF):
		return DefaultConfig(), nil
	case err != nil:
		return Config{}, fmt.Errorf("read the routes file: %w", err)
	}
	if err := strict.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Config{}, errors.New("read the routes file: it has more than one YAML document")
	}
	// Every name is known. Read once more, over the defaults: a route begins as
	// a copy of them.
	var lines struct {
		Defaults yaml.Node   `yaml:"defaults"`
		Routes   []yaml.Node `yaml:"routes"`
	}
	config := DefaultConfig()
	if err := errors.Join(yaml.Unmarshal(text, &lines), yaml.Unmarshal(text, &config)); err != nil {
		return Config{}, fmt.Errorf("read the routes file: %w", err)
	}
	if err := config.check(); err != nil {
		return Config{}, fmt.Errorf("read the routes file: %w", err)
	}
	if err := config.Defaults.check(); err != nil {
		return Config{}, fmt.Errorf("read the routes file: line %d: defaults: %w", lines.Defaults.Line, err)
	}
	for i := range config.Routes {
		route := Route{Rule: config.Defaults}
		route.Ends = maps.Clone(config.Defaults.Ends)
		node := &lines.Routes[i]
		if err := node.Decode(&route); err != nil {
			return Config{}, fmt.Errorf("read the routes file: %w", err)
		}
		if err := route.check(); err != nil {
			return Config{}, fmt.Errorf("read the routes file: line %d: route %s: %w", node.Line, route.Path, err)
		}
		config.Routes[i] = route
	}
	return config, nil
}

// maxService bounds the service's name, which is part of every scope.
const maxService = 64

func (c *Config) check() error {
	if c.Service == "" || len(c.Service) > maxService || !httpguard.Printable(c.Service) ||
		strings.Contains(c.Service, "/") {
		return fmt.Errorf("service must have 1 to %d printable ASCII characters and no /", maxService)
	}
	return nil
}

func (r *Route) check() error {
	if !strings.HasPrefix(r.Path, "/") {
		return errors.New("path must begin with /")
	}
	if err := mux.NewRouter().Path(r.Path).GetError(); err != nil {
		return fmt.Errorf("path: %w", err)
	}
	for i, method := range r.Methods {
		if r.Methods[i] = strings.ToUpper(method); !httpguts.ValidHeaderFieldName(method) {
			return fmt.Errorf("methods: %q is no method", method)
		}
	}
	return r.Rule.check()
}

const (
	maxLease = 24 * time.Hour
	maxTTL   = 3650 * 24 * time.Hour
	// maxLimit bounds bodies that are held in memory and stored.
	maxLimit = 256 << 20
)

func (r *Rule) check() error {
	switch {
	case r.Lease < time.Second || r.Lease > maxLease:
		return fmt.Errorf("lease must be from 1s to %s", maxLease)
	case r.KeyTTL < r.Lease || r.KeyTTL > maxTTL:
		return fmt.Errorf("key_ttl must be at least the lease and at most %s", maxTTL)
	case r.Timeout <= 0 || r.Timeout > maxLease:
		return fmt.Errorf("timeout must be above 0 and at most %s", maxLease)
	case r.AnswerLimit < 0 || r.AnswerLimit > maxLimit:
		return fmt.Errorf("answer_limit must be 0 to %d bytes", maxLimit)
	case r.RequestLimit < 0 || r.RequestLimit > maxLimit:
		return fmt.Errorf("request_limit must be 0 to %d bytes", maxLimit)
	case (r.Fingerprint == JSONFields) != (len(r.FingerprintFields) > 0):
		return errors.New("fingerprint: fields and a list of fingerprint_fields belong together")
	case r.Anonymous && r.Scope.From == FromFixed:
		r.Anonymous = false
	}
	for _, field := range r.FingerprintFields {
		if err := checkPointer(field); err != nil {
			return err
		}
	}
	for i, name := range r.StoreHeaders {
		r.StoreHeaders[i] = http.CanonicalHeaderKey(name)
		if !httpguts.ValidHeaderFieldName(name) || slices.Contains(neverStored, r.StoreHeaders[i]) {
			return fmt.Errorf("store_headers: %q cannot be replayed", name)
		}
	}
	for end, meaning := range r.Ends {
		if err := checkEnd(end, meaning); err != nil {
			return err
		}
	}
	return nil
}
