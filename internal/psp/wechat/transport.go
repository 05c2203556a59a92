package wechat

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// redirected makes a client whose requests go to another server: the SDK's
// address is a constant. An empty address leaves it at that.
func redirected(base *http.Client, address string) (*http.Client, error) {
	if address == "" {
		return base, nil
	}
	to, err := url.Parse(address)
	if err != nil || to.Host == "" || (to.Scheme != "http" && to.Scheme != "https") || to.RawQuery != "" {
		return nil, errors.New("wechat: the base URL is not an address such as https://api2.mch.weixin.qq.com")
	}
	if base == nil {
		base = http.DefaultClient
	}
	client := *base
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	client.Transport = redirector{to: to, next: next}
	return &client, nil
}

type redirector struct {
	to   *url.URL
	next http.RoundTripper
}

// RoundTrip sends a copy of the request: a RoundTripper may not change it.
func (r redirector) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := request.Clone(request.Context())
	sent.URL.Scheme, sent.URL.Host, sent.Host = r.to.Scheme, r.to.Host, r.to.Host
	prefix := strings.TrimSuffix(r.to.Path, "/")
	if sent.URL.RawPath != "" {
		sent.URL.RawPath = strings.TrimSuffix(r.to.EscapedPath(), "/") + sent.URL.RawPath
	}
	sent.URL.Path = prefix + sent.URL.Path
	return r.next.RoundTrip(sent)
}
