package text

import "strings"

// ShellWord returns a word as it is typed in a shell, quoted where the shell would take it for something else: what a command is advised with
// may be the choice of a client.
func ShellWord(word string) string {
	if word != "" && strings.IndexFunc(word, unsafeInShell) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func unsafeInShell(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=,.:/@%+", r)
}
