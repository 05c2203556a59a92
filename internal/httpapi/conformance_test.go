package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	validation "github.com/pb33f/libopenapi-validator/errors"
	"github.com/pb33f/libopenapi-validator/helpers"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/stretchr/testify/require"
)

// described is openapi.yaml, and what checks requests and answers against it.
type described struct {
	// The validator is for one at a time: it keeps compiled schemas in a map.
	turn      *sync.Mutex
	validator validator.Validator
	model     *v3.Document
}

// description is read once. Strict: a header that the document does not name is
// wrong too; for members the schemas themselves say so.
var description = sync.OnceValues(func() (described, error) {
	text, err := os.ReadFile("openapi.yaml")
	if err != nil {
		return described{}, err
	}
	document, err := libopenapi.NewDocument(text)
	if err != nil {
		return described{}, err
	}
	model, err := document.BuildV3Model()
	if err != nil {
		return described{}, err
	}
	made, errs := validator.NewValidator(document, config.WithStrictMode(), config.WithFormatAssertions(),
		config.WithStrictIgnorePaths("$.body.**"), config.WithStrictIgnoredHeadersExtra("Content-Encoding"))
	return described{turn: new(sync.Mutex), validator: made, model: &model.Model}, errors.Join(errs...)
})

// conforming fails the test when the API answers what openapi.yaml does not
// say, or does what a request asks that openapi.yaml would not have.
func conforming(t testing.TB, next http.Handler) http.Handler {
	t.Helper()
	document, err := description()
	require.NoError(t, err)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		asked := r.Clone(r.Context())
		r.Body = teed{io.TeeReader(r.Body, &body), r.Body}
		answer := &recorded{ResponseWriter: w}
		next.ServeHTTP(answer, r)
		asked.Body = io.NopCloser(&body)
		if wrong := document.check(asked, answer); wrong != nil {
			t.Errorf("%s %s, answered %d: not as openapi.yaml has it: %v\nheader: %v\nbody: %s",
				r.Method, r.URL.Path, answer.status, wrong, w.Header(), answer.body.String())
		}
	})
}

func (d described) check(r *http.Request, answer *recorded) error {
	response := &http.Response{
		StatusCode: answer.status, Header: answer.Header().Clone(), Body: io.NopCloser(bytes.NewReader(answer.body.Bytes())), Request: r,
	}
	if answer.status == http.StatusNotFound || answer.status == http.StatusMethodNotAllowed {
		if _, known := d.operation(r); !known {
			// Of a path or method that is not there the document can say nothing
			// but in words.
			return d.unlisted(answer)
		}
	}
	d.turn.Lock()
	defer d.turn.Unlock()
	_, wrong := d.validator.GetResponseBodyValidator().ValidateResponseBody(r, response)
	if answer.status == http.StatusCreated {
		_, more := d.validator.ValidateHttpRequestSync(r)
		wrong = append(wrong, more...)
	}
	return joined(wrong)
}

// operation finds what the document says of a request.
func (d described) operation(r *http.Request) (*v3.Operation, bool) {
	for path, item := range d.model.Paths.PathItems.FromOldest() {
		fixed, parameter, _ := strings.Cut(path, "{")
		rest, under := strings.CutPrefix(r.URL.Path, fixed)
		if under && (rest == "" && parameter == "" || rest != "" && parameter != "" && !strings.Contains(rest, "/")) {
			operation := helpers.ExtractOperation(r, item)
			return operation, operation != nil
		}
	}
	return nil, false
}

// unlisted checks the answers that the document describes in words only.
func (d described) unlisted(answer *recorded) error {
	var problem struct{ Code string }
	if err := json.Unmarshal(answer.body.Bytes(), &problem); err != nil {
		return err
	}
	want := map[int]string{http.StatusNotFound: "not_found", http.StatusMethodNotAllowed: "method_not_allowed"}
	if problem.Code != want[answer.status] || answer.Header().Get("Content-Type") != "application/problem+json" {
		return fmt.Errorf("%d with problem %q", answer.status, problem.Code)
	}
	if answer.status == http.StatusMethodNotAllowed && answer.Header().Get("Allow") == "" {
		return errors.New("405 without Allow")
	}
	return nil
}

func joined(wrong []*validation.ValidationError) error {
	var all []error
	for _, one := range wrong {
		all = append(all, one)
		for _, detail := range one.SchemaValidationErrors {
			all = append(all, fmt.Errorf("%s at %s", detail.Reason, detail.KeywordLocation))
		}
	}
	return errors.Join(all...)
}

type teed struct {
	io.Reader
	io.Closer
}

// recorded keeps a copy of an answer.
type recorded struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorded) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorded) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	r.body.Write(p)
	return r.ResponseWriter.Write(p)
}

func (r *recorded) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func TestOpenAPIIsServed(t *testing.T) {
	t.Parallel()
	h := setup(t)
	got := h.get("/openapi.yaml")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "application/yaml", got.header.Get("Content-Type"))
	text, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	require.Equal(t, string(text), got.body)
	for _, path := range []string{"/openapi.yaml", "/healthz", "/readyz", "/v1/orders/none", "/v1/charges/none"} {
		got, err := h.send(t.Context(), http.MethodHead, path, "", nil)
		require.NoError(t, err)
		require.Empty(t, got.body)
	}
}

func TestOpenAPIDocumentIsValid(t *testing.T) {
	t.Parallel()
	document, err := description()
	require.NoError(t, err)
	valid, wrong := document.validator.ValidateDocument()
	require.True(t, valid, "%v", joined(wrong))
}

// The check that every test runs under finds what is wrong.
func TestAnswersThatOpenAPIDoesNotHaveAreFound(t *testing.T) {
	t.Parallel()
	document, err := description()
	require.NoError(t, err)
	const order = `{"order_id":"o","status":"paid","amount":1,"currency":"CNY",` +
		`"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"`
	const problem = `"title":"There is no such thing here","status":404,"code":"not_found","retry":"never"}`
	const base = `{"type":"https://github.com/payonce/payonce/blob/main/docs/problems.md#`
	tests := map[string]struct {
		status      int
		contentType string
		header      http.Header
		body        string
		wrong       string
	}{
		"right":                {status: 200, body: order + "}"},
		"right problem":        {status: 404, contentType: "application/problem+json", body: base + `not_found",` + problem},
		"wrong type of amount": {status: 200, body: strings.Replace(order, `"amount":1`, `"amount":"1"`, 1) + "}", wrong: "amount"},
		"unknown status":       {status: 200, body: strings.Replace(order, "paid", "lost", 1) + "}", wrong: "enum"},
		"unknown member":       {status: 200, body: order + `,"colour":"red"}`, wrong: "colour"},
		"missing member":       {status: 200, body: `{"order_id":"o"}`, wrong: "required"},
		"no time":              {status: 200, body: strings.Replace(order, "00:00:00Z", "noon", 1) + "}", wrong: "date-time"},
		"not JSON":             {status: 200, body: "paid", wrong: "decode"},
		"unlisted status code": {status: 418, body: order + "}", wrong: "418"},
		"other content type":   {status: 200, contentType: "text/html", body: order + "}", wrong: "text/html"},
		"type of another page": {status: 404, contentType: "application/problem+json", body: base + `gone",` + problem, wrong: "const"},
		"missing header":       {status: 200, header: http.Header{"X-Request-Id": nil}, body: order + "}", wrong: "X-Request-Id"},
		"unlisted header":      {status: 200, header: http.Header{"X-Colour": {"red"}}, body: order + "}", wrong: "X-Colour"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := &recorded{ResponseWriter: httptest.NewRecorder(), status: test.status}
			answer.body.WriteString(test.body)
			answer.Header().Set("Content-Type", "application/json")
			answer.Header().Set("Cache-Control", "no-store")
			answer.Header().Set("X-Request-Id", "1")
			if test.contentType != "" {
				answer.Header().Set("Content-Type", test.contentType)
			}
			for name, values := range test.header {
				answer.Header()[name] = values
				if values == nil {
					answer.Header().Del(name)
				}
			}
			wrong := document.check(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/orders/o", nil), answer)
			if test.wrong == "" {
				require.NoError(t, wrong)
				return
			}
			require.ErrorContains(t, wrong, test.wrong)
		})
	}
}
