package install

import (
	"io/fs"
	"regexp"
	"testing"

	"usher.sh/usher/config"
)

// reserved are words of CEL. Fields with such names are escaped in rules: the apiserver of 1.30 compiles no others.
var reserved = regexp.MustCompile(`\.\??(as|break|const|continue|else|for|function|if|import|in|let|loop|namespace|null|package|return|var|void|while)\b`)

func TestSchemaRulesEscapeReservedWords(t *testing.T) {
	rule := regexp.MustCompile(`(?m)^\s*(?:- )?rule: (.*)$`)
	found := 0
	err := fs.WalkDir(config.Files, "crd", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(config.Files, path)
		if err != nil {
			return err
		}
		for _, match := range rule.FindAllSubmatch(text, -1) {
			found++
			if word := reserved.FindSubmatch(match[1]); word != nil {
				t.Errorf("%s: %s: write __%s__", path, match[1], word[1])
			}
		}
		return nil
	})
	if err != nil || found < 10 {
		t.Fatalf("%d rules: %v", found, err)
	}
}
