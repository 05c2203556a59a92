package lab

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// The file systems in memory that statfs(2) tells by these numbers.
const (
	tmpfsMagic = 0x01021994
	ramfsMagic = 0x858458f6
)

func inMemory(dir string) bool {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return false
	}
	kind := uint64(stat.Type) //nolint:gosec // its sign differs between platforms
	return kind == tmpfsMagic || kind == ramfsMagic
}

// Machine describes what the benchmark runs on; it names neither the host nor
// anybody.
func (l *Lab) Machine(ctx context.Context) (map[string]string, error) {
	flush, err := flushTime(l.dir)
	if err != nil {
		return nil, err
	}
	facts := map[string]string{
		"os": runtime.GOOS + "/" + runtime.GOARCH, "go": runtime.Version(), "cores": fmt.Sprint(runtime.NumCPU()),
		"cpu": fromFile("/proc/cpuinfo", `(?m)^model name\s*:\s*(.+)$`), "kernel": fromFile("/proc/version", `^Linux version (\S+)`),
		"memory": fromFile("/proc/meminfo", `(?m)^MemTotal:\s*(.+)$`),
		"flush":  fmt.Sprintf("%d µs (median of writing and syncing 8 kB)", flush.Microseconds()),
	}
	return facts, l.With(ctx, "postgres", func(conn *pgx.Conn) error {
		var version string
		if err := conn.QueryRow(ctx, "SELECT pg_catalog.version()").Scan(&version); err != nil {
			return fmt.Errorf("read the server's version: %w", err)
		}
		facts["postgresql"] = strings.TrimPrefix(strings.SplitN(version, " on ", 2)[0], "PostgreSQL ")
		return nil
	})
}

// Settings are the server's settings that are not its defaults, and those that
// make a commit durable.
func (l *Lab) Settings(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	return found, l.With(ctx, "postgres", func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings
  WHERE (source IN ('command line', 'configuration file') AND category NOT IN ('File Locations', 'Reporting and Logging / Where to Log'))
        OR name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method', 'wal_level', 'commit_delay', 'autovacuum')`)
		if err != nil {
			return fmt.Errorf("read the server's settings: %w", err)
		}
		var name, value string
		_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
			if name != "port" && name != "listen_addresses" && name != "unix_socket_directories" {
				found[name] = value
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read the server's settings: %w", err)
		}
		return nil
	})
}

func fromFile(path, pattern string) string {
	content, err := os.ReadFile(path) //nolint:gosec // of /proc
	if err != nil {
		return "unknown"
	}
	match := regexp.MustCompile(pattern).FindSubmatch(content)
	if match == nil {
		return "unknown"
	}
	return strings.TrimSpace(string(match[1]))
}

// flushTime is the median time to write 8 kB and have them on disk: what no
// durable commit can be faster than.
func flushTime(dir string) (time.Duration, error) {
	file, err := os.Create(filepath.Join(dir, "flush-test")) //nolint:gosec // in a folder of our own
	if err != nil {
		return 0, fmt.Errorf("measure a flush: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	defer func() { _ = file.Close() }()
	page := make([]byte, 8192)
	times := make([]time.Duration, 0, 200)
	for range cap(times) {
		start := time.Now()
		if _, err := file.WriteAt(page, 0); err != nil {
			return 0, fmt.Errorf("measure a flush: %w", err)
		}
		if err := file.Sync(); err != nil {
			return 0, fmt.Errorf("measure a flush: %w", err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// BusyTime reads how much time all cores together have worked and how much
// there was, in ticks since boot; zero where the system does not tell.
func BusyTime() (busy, all float64) {
	file, err := os.Open("/proc/stat")
	if err != nil {
		return 0, 0
	}
	defer func() { _ = file.Close() }()
	scanner := bufio.NewScanner(file)
	if !scanner.Scan() {
		return 0, 0
	}
	// cpu user nice system idle iowait irq softirq steal …, see proc(5)
	for i, field := range strings.Fields(scanner.Text())[1:9] {
		var ticks float64
		if _, err := fmt.Sscan(field, &ticks); err != nil {
			return 0, 0
		}
		all += ticks
		if i != 3 && i != 4 {
			busy += ticks
		}
	}
	return busy, all
}
