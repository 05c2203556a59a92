// Package secret reads secrets that are given by name: in a variable, or in a
// file that a variable names. A file stays out of process lists, of `docker
// inspect` and of what a crash writes down.
package secret

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// FileSuffix is what a variable's name ends with that names a file.
const FileSuffix = "_FILE"

// maxFile bounds a secret in a file, in bytes: a private key needs a few
// thousand.
const maxFile = 64 << 10

// Read reads NAME, or the file that NAME_FILE names, without the white space
// around it. given tells whether one of them is set: an empty variable is not.
// No error tells anything of the secret.
func Read(env func(name string) string, name string) (value string, given bool, err error) {
	value, path := env(name), env(name+FileSuffix)
	switch {
	case value != "" && path != "":
		return "", true, fmt.Errorf("%s and %s%s are both set: which one counts? Unset one of them", name, name, FileSuffix)
	case path == "":
		return value, value != "", nil
	}
	if value, err = readFile(path); err != nil {
		return "", true, fmt.Errorf("%s%s: %w", name, FileSuffix, err)
	}
	return value, true, nil
}

func readFile(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", err //nolint:wrapcheck // names the file and what is wrong with it
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return "", fmt.Errorf("read the secret: %w", err)
	}
	if len(content) > maxFile {
		return "", fmt.Errorf("%s is larger than %d bytes: it is not a secret", path, maxFile)
	}
	value := strings.TrimSpace(string(content))
	if value == "" {
		return "", errors.New(path + " is empty")
	}
	return value, nil
}
