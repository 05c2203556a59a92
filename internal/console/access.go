package console

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// minPassword is the shortest operator password in characters: with the
// throttle on logins nobody guesses it in a lifetime, if it was made at random.
const minPassword = 12

// maxName bounds an operator's name, in characters.
const maxName = 100

// Access says who may come in. The zero value lets nobody in: the console is
// off.
type Access struct {
	// Password is the operators' password; empty: there is no login.
	Password string
	// UserHeader is the header in which a proxy in front names the person that
	// it has authenticated; empty: none does.
	UserHeader string
	// TrustedProxies are the addresses that UserHeader and X-Forwarded-For are
	// believed from.
	TrustedProxies []netip.Prefix
}

// Enabled tells whether anybody may come in.
func (a Access) Enabled() bool { return a.Password != "" || a.UserHeader != "" }

// Check refuses settings under which the wrong people could come in.
func (a Access) Check() error {
	switch {
	case a.Password != "" && utf8.RuneCountInString(a.Password) < minPassword:
		return fmt.Errorf("the console's password is shorter than %d characters: make one with `openssl rand -base64 18`", minPassword)
	case a.UserHeader != "" && len(a.TrustedProxies) == 0:
		return fmt.Errorf("the console would believe %s from anybody: name the proxy's address in --console-trusted-proxies", a.UserHeader)
	}
	return nil
}

// ParseProxies reads addresses and networks: 10.0.0.7, 10.0.0.0/8.
func ParseProxies(list []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, text := range list {
		text = strings.TrimSpace(text)
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			address, addressErr := netip.ParseAddr(text)
			if addressErr != nil {
				return nil, fmt.Errorf("trusted proxy %q is neither an address nor a network such as 10.0.0.0/8", text)
			}
			prefix = netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen())
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, nil
}

func (a Access) trusts(address netip.Addr) bool {
	for _, prefix := range a.TrustedProxies {
		if prefix.Contains(address.Unmap()) {
			return true
		}
	}
	return false
}

// peer is the address that the connection comes from.
func peer(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap()
}

// client is the address that a request was made from: the last one that a
// trusted proxy names and that is no trusted proxy itself.
func (a Access) client(r *http.Request) netip.Addr {
	address := peer(r)
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && a.trusts(address); i-- {
		next, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		address = next.Unmap()
	}
	return address
}

// person is who the proxy in front says it is, or empty.
func (a Access) person(r *http.Request) string {
	if a.UserHeader == "" || !a.trusts(peer(r)) {
		return ""
	}
	values := r.Header.Values(a.UserHeader)
	if len(values) != 1 {
		return ""
	}
	name, err := readName(values[0])
	if err != nil {
		return ""
	}
	return name
}

var errName = errors.New("not a name")

// readName takes a name of 1 to maxName printable characters.
func readName(text string) (string, error) {
	name := strings.TrimSpace(text)
	if name == "" || !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxName ||
		strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", errName
	}
	return name, nil
}

// onLoopback tells a request over plain HTTP to this machine itself, where a
// cookie needs no TLS: browsers show such an address as secure.
func onLoopback(r *http.Request) bool { return r.TLS == nil && loopback(r.Host) }

func loopback(hostPort string) bool {
	host := (&url.URL{Host: hostPort}).Hostname()
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// overPlainHTTP tells that the browser reached us without TLS on the way: its
// cookie would be for everybody on the network to read.
func overPlainHTTP(r *http.Request) bool {
	if loopback(r.Host) {
		return false
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Scheme == "http"
}
