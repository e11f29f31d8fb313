// Package image answers: what runs in a pod of a real node, when no registry exists?
// It packs static programs into a one-layer archive that `ctr images import` and `docker load` read; neither Docker nor a
// registry is needed for that. The image of usher that `make image` writes is packed here too.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"time"
)

// Name is the image's reference. Its tag is not "latest", so that pods default to imagePullPolicy IfNotPresent.
const Name = "lab.usher.sh/workload:lab"

// Program is the path of the workload program in its image.
const Program = "/workload"

// File is a program of the host to be put into an image.
type File struct {
	From   string // path on the host; a static binary, as the image holds no libraries
	To     string // absolute path in the image
	Linked bool   // it may ask for a loader and libraries: those are in the image as well
}

// Spec says what an image is.
type Spec struct {
	Name  string // its reference
	User  string // uid, or uid:gid, that runs the entry point; root if empty
	Entry File   // the entry point; the image is for the architecture that it was built for
	Files []File // further programs
}

// Write packs an image in docker-archive format. Equal programs give an equal image.
func Write(w io.Writer, s Spec) error {
	architecture, err := architectureOf(s.Entry.From)
	if err != nil {
		return err
	}
	layer, err := layerOf(append([]File{s.Entry}, s.Files...))
	if err != nil {
		return err
	}
	config, err := json.Marshal(s.config(architecture, layer))
	if err != nil {
		return fmt.Errorf("encoding image config: %w", err)
	}
	manifest, err := json.Marshal([]manifestEntry{{Config: "config.json", RepoTags: []string{s.Name}, Layers: []string{"layer.tar"}}})
	if err != nil {
		return fmt.Errorf("encoding image manifest: %w", err)
	}
	archive := tar.NewWriter(w)
	for _, part := range []struct {
		name string
		body []byte
	}{{"layer.tar", layer}, {"config.json", config}, {"manifest.json", manifest}} {
		if err := writeFile(archive, part.name, 0o644, part.body); err != nil {
			return err
		}
	}
	return archive.Close()
}

// WriteFile is Write into a file, which appears whole or not at all.
func WriteFile(to string, s Spec) error {
	var archive bytes.Buffer
	if err := Write(&archive, s); err != nil {
		return err
	}
	temporary := to + ".part"
	if err := os.WriteFile(temporary, archive.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing image %s: %w", s.Name, err)
	}
	return os.Rename(temporary, to)
}

func layerOf(files []File) ([]byte, error) {
	var layer bytes.Buffer
	out := tar.NewWriter(&layer)
	tmp := &tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777, ModTime: time.Unix(0, 0)}
	if err := out.WriteHeader(tmp); err != nil {
		return nil, fmt.Errorf("writing image layer: %w", err)
	}
	for _, file := range files {
		if !path.IsAbs(file.To) {
			return nil, fmt.Errorf("putting %s into the image: %q is not an absolute path", file.From, file.To)
		}
		if err := checkStatic(file.From); err != nil && !file.Linked {
			return nil, err
		}
		body, err := os.ReadFile(file.From)
		if err != nil {
			return nil, fmt.Errorf("putting a file into the image: %w", err)
		}
		if err := writeFile(out, file.To[1:], 0o755, body); err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, fmt.Errorf("closing image layer: %w", err)
	}
	return layer.Bytes(), nil
}

// writeFile leaves the modification time at the epoch: equal input gives an equal image.
func writeFile(out *tar.Writer, name string, mode int64, body []byte) error {
	header := &tar.Header{Name: name, Mode: mode, Size: int64(len(body)), ModTime: time.Unix(0, 0)}
	if err := out.WriteHeader(header); err != nil {
		return fmt.Errorf("writing %s into the image: %w", name, err)
	}
	if _, err := out.Write(body); err != nil {
		return fmt.Errorf("writing %s into the image: %w", name, err)
	}
	return nil
}

type manifestEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

type config struct {
	Architecture string        `json:"architecture"`
	OS           string        `json:"os"`
	Config       processConfig `json:"config"`
	RootFS       rootFS        `json:"rootfs"`
}

type processConfig struct {
	User       string `json:",omitempty"`
	Entrypoint []string
	Env        []string
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

func (s Spec) config(architecture string, layer []byte) config {
	sum := sha256.Sum256(layer)
	return config{
		Architecture: architecture,
		OS:           "linux",
		Config:       processConfig{User: s.User, Entrypoint: []string{s.Entry.To}, Env: []string{"PATH=/"}},
		RootFS:       rootFS{Type: "layers", DiffIDs: []string{"sha256:" + hex.EncodeToString(sum[:])}},
	}
}
