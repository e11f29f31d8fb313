package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrite(t *testing.T) {
	program := filepath.Join(t.TempDir(), "workload")
	if err := Compile(t.Context(), program); err != nil {
		t.Fatal(err)
	}
	first, second := write(t, program, File{From: program, To: "/bin/extra"}), write(t, program, File{From: program, To: "/bin/extra"})
	if !bytes.Equal(first, second) {
		t.Error("the same input gave two different images")
	}

	archive := contents(t, first)
	var manifest []manifestEntry
	if err := json.Unmarshal(archive["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	want := []manifestEntry{{Config: "config.json", RepoTags: []string{Name}, Layers: []string{"layer.tar"}}}
	if diff := cmp.Diff(want, manifest); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	var config config
	if err := json.Unmarshal(archive["config.json"], &config); err != nil {
		t.Fatal(err)
	}
	// The runtime refuses a layer whose content is not what the config says.
	sum := fmt.Sprintf("sha256:%x", sha256.Sum256(archive["layer.tar"]))
	if diff := cmp.Diff([]string{sum}, config.RootFS.DiffIDs); diff != "" {
		t.Errorf("layers in the config (-want +got):\n%s", diff)
	}

	if config.Architecture != runtime.GOARCH || config.Config.User != "65532" || !slices.Equal(config.Config.Entrypoint, []string{Program}) {
		t.Errorf("config %+v, want this machine's architecture, the user and the entry point of the image", config)
	}

	body, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	layer := contents(t, archive["layer.tar"])
	for _, name := range []string{"workload", "bin/extra"} {
		if !bytes.Equal(layer[name], body) {
			t.Errorf("%s in the layer has %d bytes, want the program's %d", name, len(layer[name]), len(body))
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	dynamic := "/bin/true"
	for _, test := range []struct {
		name, program, to, want string
	}{
		{"a program that is not there", filepath.Join(dir, "none"), Program, "no such file"},
		{"a script", text, Program, "not a program for Linux"},
		{"a dynamically linked program", dynamic, Program, "CGO_ENABLED=0"},
		{"a relative path", dynamic, "bin/true", "not an absolute path"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := layerOf([]File{{From: test.program, To: test.to}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func write(t *testing.T, program string, files ...File) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, Spec{Name: Name, User: "65532", Entry: File{From: program, To: Program}, Files: files}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func contents(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for in := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = body
	}
}
