//go:build !unix

package postgres

import "net"

// alive cannot tell without a message on this system; a broken connection
// fails its next call, which the caller reports as the database being away.
func alive(net.Conn) bool { return true }
