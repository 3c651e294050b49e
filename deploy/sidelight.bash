# SPDX-License-Identifier: Apache-2.0
# bash completion of sidelight: commands and options come from --help, so they are always current.
_sidelight()
{
	local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]-} help

	COMPREPLY=()
	if [[ $COMP_CWORD -eq 1 ]]; then
		help=$(sidelight --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')
		mapfile -t COMPREPLY < <(compgen -W "$help --help --version" -- "$current")
	elif [[ $COMP_CWORD -eq 2 && $command == help ]]; then
		help=$(sidelight --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')
		mapfile -t COMPREPLY < <(compgen -W "$help" -- "$current")
	elif [[ $COMP_CWORD -eq 2 && $command =~ ^(generate|tcp)$ && $current != -* ]]; then
		help=$(sidelight "$command" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')
		mapfile -t COMPREPLY < <(compgen -W "$help" -- "$current")
	elif [[ $current == -* ]]; then
		[[ $command =~ ^(generate|tcp)$ || "$command ${COMP_WORDS[2]-}" == 'model train' ]] && command="$command ${COMP_WORDS[2]-}"
		# The command is one word or two on purpose.
		help=$(sidelight $command --help 2>/dev/null | grep -o -- '^ *\(-.,\)\? *--[a-z0-9-]*' |
			grep -o -- '--[a-z0-9-]*')
		mapfile -t COMPREPLY < <(compgen -W "$help" -- "$current")
	else
		compopt -o default
	fi
}
complete -F _sidelight sidelight
