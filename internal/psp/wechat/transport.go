package wechat

import (
	"errors"
	"net/http"
	"net/url"
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
	if to.Path == "" {
		to.Path = "/" // JoinPath makes a relative path of none
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
	sent.URL, sent.Host = r.to.JoinPath(request.URL.EscapedPath()), r.to.Host
	sent.URL.RawQuery = request.URL.RawQuery
	return r.next.RoundTrip(sent)
}
