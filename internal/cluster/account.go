package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who the server runs as. PostgreSQL refuses to run as root, so
// root hands it to an unprivileged account.
type account struct {
	uid, gid int
	name     string
	drop     bool
}

func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: os.Getuid(), gid: os.Getgid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(found.Uid)
		gid, errGID := strconv.Atoi(found.Gid)
		if errUID == nil && errGID == nil && uid != 0 {
			return account{uid: uid, gid: gid, name: name, drop: true}, nil
		}
	}
	return account{}, errors.New("PostgreSQL does not run as root, and there is neither an account postgres nor nobody to run it as: " +
		"run payonce as an ordinary user, or name a database with --database-url")
}

// apply makes a command run as the account, out of reach of the terminal's
// interrupt: the server is stopped by its program, in order.
func (a account) apply(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)} //nolint:gosec // ids of the system
		cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "USER="+a.name, "LOGNAME="+a.name)
	}
}

// home makes the server's folder. Where the account cannot reach it, as below
// /root, the server lives under /var/lib instead, in a folder that belongs to
// this place alone.
func (a account) home(dataDir string, log *slog.Logger) (string, error) {
	absolute, err := filepath.Abs(dataDir)
	if err != nil {
		return "", fmt.Errorf("find the data folder: %w", err)
	}
	dir := filepath.Join(absolute, "postgres")
	if err := os.MkdirAll(absolute, 0o755); err != nil { //nolint:gosec // the server's account has to pass through
		return "", fmt.Errorf("make the data folder (choose another with --data-dir): %w", err)
	}
	if a.drop && !reachable(absolute) {
		sum := sha256.Sum256([]byte(absolute))
		dir = filepath.Join("/var/lib/payonce", hex.EncodeToString(sum[:6]))
		log.Warn("the account that runs PostgreSQL cannot reach the data folder; using another one",
			"account", a.name, "data_dir", absolute, "instead", dir)
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // as above
			return "", fmt.Errorf("make the data folder: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the data folder (choose another with --data-dir): %w", err)
	}
	if a.drop {
		if err := os.Chown(dir, a.uid, a.gid); err != nil {
			return "", fmt.Errorf("hand the data folder to %s: %w", a.name, err)
		}
	}
	return dir, nil
}

// reachable tells whether everybody may pass through a folder and all above it.
func reachable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// writeFile writes a file that only the account may read.
func (a account) writeFile(path, content string) error {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("write %s (choose another folder with --data-dir): %w", path, err)
	}
	if a.drop {
		if err := os.Chown(path, a.uid, a.gid); err != nil {
			return fmt.Errorf("hand %s to %s: %w", path, a.name, err)
		}
	}
	return nil
}

// lockFolder keeps a second payonce out of the folder for as long as this
// program runs, however it ends.
func lockFolder(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path)
		return nil, errors.Join(
			fmt.Errorf("another payonce (pid %s) uses %s: stop it, or choose another --data-dir", holder, dir), lock.Close())
	}
	if err := errors.Join(lock.Truncate(0), writeAt(lock, strconv.Itoa(os.Getpid()))); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), lock.Close())
	}
	return lock, nil
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}
