// Package childproc starts processes that do not outlive this program.
package childproc
