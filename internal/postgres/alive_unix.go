//go:build unix

package postgres

import (
	"crypto/tls"
	"net"
	"syscall"
)

// alive peeks at an idle connection's socket without sending or waiting.
// Nothing there is health; an end of file, an error, or a message that nobody
// asked for (a server that shuts down says so) makes the connection unfit.
func alive(conn net.Conn) bool {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	healthy := false
	// Not raw.Read: pgx may have left a read waiting in the background, and that
	// holds the lock which Read would wait for.
	err = raw.Control(func(fd uintptr) {
		var peeked [1]byte
		_, _, err := syscall.Recvfrom(int(fd), peeked[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		healthy = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
	})
	return err == nil && healthy
}
