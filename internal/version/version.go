// Package version tells which payonce a program was built from.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// stamp names a release that Go cannot tell, in a build without git:
//
//	go build -ldflags "-X github.com/payonce/payonce/internal/version.stamp=v1.2.3"
var stamp string

// Info says what the running program was built from.
type Info struct {
	// Version is the release, or Go's pseudo-version of a commit; "devel" when
	// neither is known.
	Version string `json:"version"`
	// Revision is the commit, Time when it was made (RFC 3339), Modified whether
	// files differed from it. Empty in a build outside a git checkout.
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	// Go is the toolchain, Platform GOOS/GOARCH.
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get reads what the linker and the go command wrote into the program.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return of(build, stamp)
}

func of(build *debug.BuildInfo, stamp string) Info {
	module := build.Main.Version
	if module == "(devel)" {
		module = ""
	}
	info := Info{
		Version: cmp.Or(stamp, module, "devel"),
		Go:      runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Revision = setting.Value
		case "vcs.time":
			info.Time = setting.Value
		case "vcs.modified":
			info.Modified = setting.Value == "true"
		}
	}
	return info
}

// String is one line: v1.2.3 (commit 0123456789ab of 2026-12-01T10:00:00Z, go1.26.8, linux/amd64).
func (i Info) String() string {
	var details []string
	if i.Revision != "" {
		commit := fmt.Sprintf("commit %.12s of %s", i.Revision, i.Time)
		if i.Modified {
			commit += " with changes"
		}
		details = append(details, commit)
	}
	return fmt.Sprintf("%s (%s)", i.Version, strings.Join(append(details, i.Go, i.Platform), ", "))
}
