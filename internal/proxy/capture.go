package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/encoding/charmap"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpguard"
)

// alwaysStored are the headers that a replay has besides the configured ones.
var alwaysStored = []string{"Content-Type", "Content-Encoding", "Location", "Etag", "Link"}

// neverStored are the headers that belong to one exchange or one connection:
// cookies, the clock, what the server computes, hop by hop (RFC 9110, section 7.6.1).
var neverStored = []string{
	"Set-Cookie", "Set-Cookie2", "Date", "Content-Length", "Connection", "Proxy-Connection", "Keep-Alive",
	"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info", "Te", "Trailer", "Transfer-Encoding",
	"Upgrade", "Idempotency-Replayed", "X-Request-Id",
}

// capture reads a body to its end, or to limit bytes. whole tells which.
func capture(body io.Reader, expected, limit int64) (read []byte, whole bool, err error) {
	if expected > limit {
		return nil, false, nil
	}
	var buffer bytes.Buffer
	if expected > 0 {
		buffer.Grow(int(expected) + bytes.MinRead)
	}
	if _, err := buffer.ReadFrom(io.LimitReader(body, limit+1)); err != nil {
		return nil, false, fmt.Errorf("read the upstream's answer: %w", err)
	}
	return buffer.Bytes(), int64(buffer.Len()) <= limit, nil
}

// putBack makes a response read from its beginning again: first what capture
// has read, then the rest.
func putBack(response *http.Response, read []byte, whole bool) {
	rest := response.Body
	if !whole {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(read), rest), rest}
		return
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(read), rest}
	if len(response.Trailer) == 0 && len(read) > 0 {
		response.ContentLength = int64(len(read))
		response.Header.Set("Content-Length", strconv.Itoa(len(read)))
	}
}

// stored is what a retry of the request gets: status, body, and the headers
// that are as true then as now.
func (r *Rule) stored(response *http.Response, body []byte) guard.Response {
	headers := map[string]string{}
	for _, name := range slices.Concat(alwaysStored, r.StoreHeaders) {
		if values := response.Header.Values(name); len(values) > 0 {
			headers[name] = toText(strings.Join(values, ", "))
		}
	}
	return guard.Response{Status: response.StatusCode, Headers: headers, Body: body}
}

// tombstone is what a retry gets when the answer was too large to be stored.
func (r *Rule) tombstone(response *http.Response) (guard.Response, error) {
	gone := answerNotStored.Detail(fmt.Sprintf("The work was done and answered with status %d. The answer was larger "+
		"than %d bytes and went to the first caller only; read the result where the service shows it.",
		response.StatusCode, r.AnswerLimit))
	body, err := json.Marshal(struct {
		httpguard.Problem

		UpstreamStatus int `json:"upstream_status"`
	}{gone, response.StatusCode})
	if err != nil {
		return guard.Response{}, fmt.Errorf("encode the tombstone: %w", err)
	}
	headers := map[string]string{"Content-Type": httpguard.ProblemType}
	if location := response.Header.Get("Location"); location != "" {
		headers["Location"] = toText(location)
	}
	return guard.Response{Status: gone.Status, Headers: headers, Body: body}, nil
}

// replay answers with a stored response.
func replay(w http.ResponseWriter, response guard.Response) {
	for name, value := range response.Headers {
		response.Headers[name] = fromText(value)
	}
	noSniffing(w.Header())
	httpguard.WriteReplay(w, response)
}

// noSniffing keeps net/http from guessing a Content-Type that the upstream did
// not send.
func noSniffing(header http.Header) {
	if _, ok := header["Content-Type"]; !ok {
		header["Content-Type"] = nil
	}
}

// toText makes a header's bytes storable as JSON text, each byte one character
// (ISO 8859-1, which RFC 9110, section 5.5, has them in); fromText undoes it.
func toText(value string) string {
	text, err := charmap.ISO8859_1.NewDecoder().String(value)
	if err != nil {
		return value
	}
	return text
}

func fromText(text string) string {
	value, err := charmap.ISO8859_1.NewEncoder().String(text)
	if err != nil {
		return text
	}
	return value
}

// readBody reads a request's body, so that it can be fingerprinted and sent.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *httpguard.Problem) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refused := httpguard.BodyTooLarge.Detail(fmt.Sprintf("At most %d bytes.", limit))
		return nil, &refused
	case err != nil:
		refused := httpguard.BodyMalformed.Detail("The body could not be read to its end.")
		return nil, &refused
	}
	return body, nil
}
