package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Meaning is what an end of the upstream's work means for the key.
type Meaning string

const (
	// Store keeps the answer: a retry gets it again.
	Store Meaning = "store"
	// Release frees the key: the work was surely not done, a retry does it.
	Release Meaning = "release"
	// InDoubt keeps the key without an answer: the work may have been done.
	InDoubt Meaning = "in_doubt"
)

// UnmarshalYAML reads one of the three words.
func (m *Meaning) UnmarshalYAML(node *yaml.Node) error {
	*m = Meaning(node.Value)
	return oneOf(node, "an end", *m, Store, Release, InDoubt)
}

// The ends that are not a whole answer.
const (
	// notSent: not one byte of the request left, so no route can change it.
	notSent = "not sent"
	cut     = "cut"
	timeout = "timeout"
)

// end is one row of the table: how the upstream's work can end.
type end struct {
	name    string
	matches func(status int, header http.Header) bool
	meaning Meaning
}

// ends is the one table of what each end means; the first row that matches
// counts. What counts is whether the work can have been done, which a status
// class alone does not tell.
var ends = []end{
	{"408", is(http.StatusRequestTimeout), InDoubt},
	{"425", is(http.StatusTooEarly), Release},
	{"429", is(http.StatusTooManyRequests), Release},
	{"2xx", class(2), Store},
	{"3xx", class(3), Store},
	{"4xx", class(4), Store},
	{"500", is(http.StatusInternalServerError), Store},
	{"503 with Retry-After", busy, Release},
	{"5xx", class(5), InDoubt},
}

// brokenEnds are the ends without a whole answer.
var brokenEnds = map[string]Meaning{notSent: Release, cut: InDoubt, timeout: InDoubt}

func is(status int) func(int, http.Header) bool {
	return func(got int, _ http.Header) bool { return got == status }
}

func class(hundreds int) func(int, http.Header) bool {
	return func(got int, _ http.Header) bool { return got/100 == hundreds }
}

func busy(status int, header http.Header) bool {
	return status == http.StatusServiceUnavailable && header.Get("Retry-After") != ""
}

// answerMeans tells what a whole answer means: what the route says of the
// status, else of its class, else the table. No final answer has a status
// outside 200 to 599, so such a one leaves the work in doubt.
func (r *Rule) answerMeans(status int, header http.Header) Meaning {
	for _, name := range []string{strconv.Itoa(status), strconv.Itoa(status/100) + "xx"} {
		if meaning, ok := r.Ends[name]; ok {
			return meaning
		}
	}
	for _, row := range ends {
		if row.matches(status, header) {
			return row.meaning
		}
	}
	return InDoubt
}

// breakMeans tells what an end without a whole answer means.
func (r *Rule) breakMeans(name string) Meaning {
	if meaning, ok := r.Ends[name]; ok {
		return meaning
	}
	return brokenEnds[name]
}

var answerEnd = regexp.MustCompile(`^[2-5](xx|[0-9][0-9])$`)

func checkEnd(name string, meaning Meaning) error {
	if answerEnd.MatchString(name) {
		return nil
	}
	if name != cut && name != timeout {
		return fmt.Errorf("ends: %q is no status, class (5xx), %s or %s", name, cut, timeout)
	}
	if meaning == Store {
		return errors.New("ends: without an answer there is nothing to store for " + name)
	}
	return nil
}
