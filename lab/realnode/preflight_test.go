package realnode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.sh/usher/lab/binaries"
)

func TestPreflightNamesAllThatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := Preflight(binaries.Cache{Dir: t.TempDir()})
	if err == nil {
		t.Fatal("no error without runc and without built programs")
	}
	for _, want := range []string{
		"runc is not in PATH: apt-get install runc containernetworking-plugins",
		"kubelet is not built: run `go run -C lab ./cmd/lab build --real`",
	} {
		if !strings.Contains(err.Error(), "\n- "+want) {
			t.Errorf("the error does not have a line %q:\n%v", want, err)
		}
	}
}

func TestFindPlugins(t *testing.T) {
	full, partial := t.TempDir(), t.TempDir()
	for _, path := range []string{
		filepath.Join(full, "bridge"), filepath.Join(full, "host-local"), filepath.Join(full, "loopback"),
		filepath.Join(partial, "bridge"),
	} {
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name    string
		folders []string
		want    string
		err     string
	}{
		{"the first complete folder counts", []string{partial, full}, full, ""},
		{"an incomplete folder is not enough", []string{partial}, "", "apt-get install"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := findPlugins(test.folders)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %q, %v; want %q and an error with %q", got, err, test.want, test.err)
			}
		})
	}
}

func TestCheckRefusesHiddenFolders(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*Config)
		want string // empty: accepted
	}{
		{"a state folder elsewhere", func(*Config) {}, ""},
		{"a folder that only begins alike", func(c *Config) { c.Dir = "/running/node" }, ""},
		{"a state folder under /run", func(c *Config) { c.Dir = "/run/user/0/node" }, "/run/user/0/node is under /run"},
		{"a cache under /var/lib", func(c *Config) { c.Cache.Dir = "/var/lib/cache" }, "/var/lib/cache is under /var/lib"},
		{"an image under /var/log", func(c *Config) { c.Images = []string{"/var/log/i.tar"} }, "is under /var/log"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := Config{Dir: "/home/u/node", Processes: "/home/u", Kubeconfig: "/home/u/k", ClientCA: "/home/u/c", Cache: binaries.Cache{Dir: "/home/u/cache"}}
			test.set(&config)
			err := config.check()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
