package doctor

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
)

// transport looks at how this program reaches the server:
// https://www.postgresql.org/docs/current/libpq-ssl.html#LIBPQ-SSL-PROTECTION
func transport(_ context.Context, p *patient) ([]Finding, error) {
	conn, config := p.conn.PgConn().Conn(), p.conn.Config()
	_, encrypted := conn.(*tls.Conn)
	return judgeTransport(conn.RemoteAddr(), config.Host, encrypted, config.TLSConfig), nil
}

func judgeTransport(peer net.Addr, host string, encrypted bool, config *tls.Config) []Finding {
	at, err := netip.ParseAddrPort(peer.String())
	switch {
	case err != nil || at.Addr().Unmap().IsLoopback(): // a socket of this machine
		return nil
	case encrypted && (!config.InsecureSkipVerify || config.VerifyPeerCertificate != nil || config.VerifyConnection != nil):
		return nil
	case encrypted:
		return []Finding{ConnectionUnverified.found("the connection to %s is encrypted, but nobody looked at its certificate", host)}
	case at.Addr().Unmap().IsPrivate():
		return []Finding{ConnectionUnverified.found("the connection to %s (%s) is not encrypted", host, at.Addr())}
	default:
		return []Finding{ConnectionPlain.found("the connection to %s (%s) is not encrypted, and leaves the private network", host, at.Addr())}
	}
}
