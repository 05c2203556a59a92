// Package listener opens the address that a server answers on: over TLS where
// there is a certificate, and with a bound on connections.
package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"golang.org/x/net/netutil"
)

// Options say how an address is served.
type Options struct {
	// Address is host and port.
	Address string
	// CertFile and KeyFile are PEM files: a certificate with what stands between
	// it and a root, and its private key. Both empty: no TLS.
	CertFile, KeyFile string
	// MaxConnections bounds how many connections are open at once; the others
	// wait until one ends. 0: no bound.
	MaxConnections int
	Log            *slog.Logger
}

// Open listens. TLS is version 1.2 at least, and HTTP/2 is offered; the
// certificate is read anew when its files change, so that a renewal needs no
// restart. An address that other machines reach without TLS is told in the log.
func Open(ctx context.Context, options Options) (net.Listener, error) {
	if (options.CertFile == "") != (options.KeyFile == "") {
		return nil, errors.New("a certificate and its key go together: give both files or neither")
	}
	var config *tls.Config
	if options.CertFile != "" {
		renewed, err := newCertificate(options.CertFile, options.KeyFile, options.Log)
		if err != nil {
			return nil, err
		}
		config = &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: renewed.get,
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", options.Address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if config == nil && !loopback(listener.Addr()) {
		options.Log.WarnContext(ctx, "other machines reach this address, and it speaks no TLS: "+
			"only a proxy in front that does should be able to", "address", listener.Addr().String())
	}
	if options.MaxConnections > 0 {
		listener = netutil.LimitListener(listener, options.MaxConnections)
	}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	return listener, nil
}

func loopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
