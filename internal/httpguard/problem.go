// Package httpguard is what every guarded HTTP endpoint shares, whether
// payonce does the work itself or a service behind it: how a key is read, how
// a refusal and a replay are written, what the access log says.
package httpguard

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/payonce/payonce/internal/guard"
)

// problemBase is where each problem's code has its explanation.
const problemBase = "https://github.com/payonce/payonce/blob/main/docs/problems.md#"

// Retry tells a client what may be done after a problem.
type Retry string

const (
	// RetrySameKey says to send the same request with the same key again, after
	// Retry-After, with exponential back-off and jitter.
	RetrySameKey Retry = "same_key"
	// RetryChanged says to mend the request; its key was not used up.
	RetryChanged Retry = "changed_request"
	// RetryNewKey says that this key will answer the same for ever.
	RetryNewKey Retry = "new_key"
	// RetryNever says that the request can never succeed.
	RetryNever Retry = "never"
)

// Kind is one row of a table of answers.
type Kind struct {
	code   string
	status int
	title  string
	retry  Retry
}

// NewKind makes a row. code never changes once it is released, and has its
// section in docs/problems.md.
func NewKind(code string, status int, title string, retry Retry) Kind {
	return Kind{code: code, status: status, title: title, retry: retry}
}

// Code is the stable name of the problem.
func (k Kind) Code() string { return k.code }

// Retry is what a client may do after the problem.
func (k Kind) Retry() Retry { return k.retry }

// Problem is the problem without more detail.
func (k Kind) Problem() Problem {
	return Problem{Type: problemBase + k.code, Title: k.title, Status: k.status, Code: k.code, Retry: k.retry}
}

// Detail is the problem with a sentence about this request.
func (k Kind) Detail(text string) Problem {
	p := k.Problem()
	p.Detail = text
	return p
}

// The problems that any guarded endpoint may answer with.
var (
	KeyMissing       = NewKind("idempotency_key_missing", http.StatusBadRequest, "The Idempotency-Key header is missing", RetryChanged)
	KeyRepeated      = NewKind("idempotency_key_repeated", http.StatusBadRequest, "There is more than one Idempotency-Key header", RetryChanged)
	KeyInvalid       = NewKind("idempotency_key_invalid", http.StatusBadRequest, "The Idempotency-Key is not 1 to 255 printable ASCII characters", RetryChanged)
	BodyTooLarge     = NewKind("body_too_large", http.StatusRequestEntityTooLarge, "The body is larger than this call takes", RetryChanged)
	BodyMalformed    = NewKind("body_malformed", http.StatusBadRequest, "The body is not what this call takes", RetryChanged)
	NotFound         = NewKind("not_found", http.StatusNotFound, "There is no such thing here", RetryNever)
	MethodNotAllowed = NewKind("method_not_allowed", http.StatusMethodNotAllowed, "This path does not take this method", RetryNever)
	InternalError    = NewKind("internal_error", http.StatusInternalServerError, "Something failed on our side", RetrySameKey)
	DatabaseAway     = NewKind("database_unavailable", http.StatusServiceUnavailable, "The database does not answer, so nothing was begun", RetrySameKey)
	ServerBusy       = NewKind("server_busy", http.StatusServiceUnavailable, "Every database connection is in use, so nothing was begun", RetrySameKey)
	Stopping         = NewKind("stopping", http.StatusServiceUnavailable, "The server is about to stop and wants no new requests", RetrySameKey)
	KeyInProgress    = NewKind("key_in_progress", http.StatusConflict, "A request with this key is being worked on", RetrySameKey)
	KeyReused        = NewKind("key_reused", http.StatusUnprocessableEntity, "This key was used with another request", RetryNewKey)
)

// Kinds lists the problems of this package.
func Kinds() []Kind {
	return []Kind{
		KeyMissing, KeyRepeated, KeyInvalid, BodyTooLarge, BodyMalformed, NotFound, MethodNotAllowed, InternalError,
		DatabaseAway, ServerBusy, Stopping, KeyInProgress, KeyReused,
	}
}

// Problem is an application/problem+json body (RFC 9457) with the members that
// all of ours have. Embed it to add others.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`
	Retry  Retry  `json:"retry"`
	Field  string `json:"field,omitempty"`
}

// HTTPStatus is the status that the problem is sent with.
func (p Problem) HTTPStatus() int { return p.Status }

// AnyProblem is a Problem, or a struct that embeds one.
type AnyProblem interface{ HTTPStatus() int }

// ProblemType is the media type of a problem.
const ProblemType = "application/problem+json"

// WriteProblem answers with a problem.
func WriteProblem(w http.ResponseWriter, p AnyProblem) {
	body, err := json.Marshal(p)
	if err != nil {
		w.WriteHeader(p.HTTPStatus())
		return
	}
	w.Header().Set("Content-Type", ProblemType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.HTTPStatus())
	_, _ = w.Write(body)
}

// RetryAfter sets Retry-After in whole seconds, at least one (RFC 9110).
func RetryAfter(w http.ResponseWriter, wait time.Duration) {
	seconds := max(1, int64((wait+time.Second-1)/time.Second))
	w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
}

// WriteReplay answers with a response that was stored by an earlier request.
func WriteReplay(w http.ResponseWriter, response guard.Response) {
	w.Header().Set("Idempotency-Replayed", "true")
	WriteStored(w, response)
}

// WriteStored answers with a stored response.
func WriteStored(w http.ResponseWriter, response guard.Response) {
	w.Header().Set("Cache-Control", "no-store")
	for name, value := range response.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(response.Status)
	_, _ = w.Write(response.Body)
}
