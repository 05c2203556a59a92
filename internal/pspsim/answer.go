package pspsim

import "net/http"

// answer is what a provider answers to one request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) write(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// cutConnection ends the connection at the beginning of the answer. Without
// these few bytes, an HTTP client may take a connection that it used before for
// one that was closed while idle, and repeat the request by itself, as Go's
// does for a GET and for any request with an Idempotency-Key.
func cutConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = conn.Write([]byte("HTTP/1.1 "))
	_ = conn.Close()
}
