"""Completion for bash, zsh and fish, from what gpupool_docs.py knows of the
verbs. What an argument may be is told by its metavar: PID, FILE, DIR, KEY.
"""
import re

PIDS = (r'''for f in "${XDG_RUNTIME_DIR:-/nonexistent}/gpupool" '''
        r'''"/tmp/gpupool-$(id -u)"; do ls "$f" 2>/dev/null; done | '''
        r'''sed -n 's/^\([0-9]*\)-[0-9]*-[0-9]*\.gpupool$/\1/p' ''')


def kinds(option):
    """Of 'pid', 'file', 'dir', 'key', 'conf'; or its choices."""
    if option.choices:
        return list(option.choices)
    words = set(re.split(r'[^A-Z]+', option.metavar))
    found = []
    if 'PID' in words:
        found.append(':pid')
    if words & {'FILE', 'TRACE', 'PATH', 'A', 'B'}:
        found.append(':file')
    if 'DIR' in words:
        found.append(':dir')
    if 'KEY' in words and not option.names:
        found.append(':key')
    if option.metavar.startswith('K:V'):
        found.append(':conf')
    # Words in small letters stand for themselves: PID|all.
    found += re.findall(r'(?:^|\|)([a-z]+)(?=\||$)', option.metavar)
    return found


def quoted(text):
    return "'%s'" % text.replace("'", "'\\''")


# ---- bash --------------------------------------------------------------------

BASH = r'''# bash completion for gpupool; made by gpupool_docs.py.

_gpupool_pids()
{
    %(pids)s
}

# Candidates for the word: kinds of things, or words.
_gpupool_offer()
{
    local cur=$1 kind
    shift
    for kind; do
        case $kind in
        :pid) COMPREPLY+=($(compgen -W "$(_gpupool_pids)" -- "$cur")) ;;
        :file) compopt -o filenames 2>/dev/null
            COMPREPLY+=($(compgen -f -- "$cur")) ;;
        :dir) compopt -o filenames 2>/dev/null
            COMPREPLY+=($(compgen -d -- "$cur")) ;;
        :key) COMPREPLY+=($(compgen -W "$_gpupool_keys" -- "$cur")) ;;
        :conf) compopt -o nospace 2>/dev/null
            COMPREPLY+=($(compgen -S : -W "$_gpupool_keys" -- "$cur")) ;;
        *) COMPREPLY+=($(compgen -W "$kind" -- "$cur")) ;;
        esac
    done
}

_gpupool_keys=%(keys)s

_gpupool()
{
    local IFS=$' \t\n' cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]}
    local i word last= place=0
    COMPREPLY=()
    if [ "$COMP_CWORD" -le 1 ]; then
        _gpupool_offer "$cur" %(verbs)s help --help --version
        return
    fi
    # Which argument is this? A program of its own begins at the first.
    for ((i = 2; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [ -n "$last" ]; then
            last=
        elif [ "$word" = -- ]; then
            place=$((place + 1))
            i=$((i + 1))
            break
        elif [ "${word#-}" != "$word" ]; then
            case "$verb $word" in
            %(valued)s) last=$word ;;
            esac
        else
            place=$((place + 1))
            case $verb in %(wrappers)s) break ;; esac
        fi
    done
    case $verb in
    %(wrappers)s)
        if [ "$place" -gt 0 ]; then
            if declare -F _command_offset >/dev/null; then
                _command_offset "$i"
            elif [ "$i" -ge "$COMP_CWORD" ]; then
                COMPREPLY=($(compgen -c -- "$cur"))
            else
                _gpupool_offer "$cur" :file
            fi
            return
        fi ;;
    esac
    case "$verb $last" in
%(values)s
    esac
    if [ "${cur#-}" != "$cur" ]; then
        case $verb in
%(options)s
        esac
        return
    fi
    case "$verb $place" in
%(places)s
    help\ 0) _gpupool_offer "$cur" %(verbs)s ;;
    esac
}
complete -F _gpupool gpupool
'''


def wrappers(verbs):
    return [verb.name for verb in verbs
            if any(argument.is_rest for argument in verb.arguments)]


def bash(verbs, keys):
    valued, values, options, places = [], [], [], []
    for verb in verbs:
        flags = []
        for option in verb.options:
            flags += option.names
            if not option.takes_value:
                continue
            pattern = '|'.join(r'%s\ %s' % (verb.name, name)
                               for name in option.names)
            valued.append(pattern)
            values.append('    %s) _gpupool_offer "$cur" %s; return ;;' % (
                pattern, ' '.join(map(quoted, kinds(option)))))
        options.append('        %s) _gpupool_offer "$cur" %s ;;' % (
            verb.name, ' '.join(flags)))
        for place, argument in enumerate(verb.arguments):
            if argument.is_rest:
                places.append('    %s\\ %d) COMPREPLY=($(compgen -c -- '
                              '"$cur")) ;;' % (verb.name, place))
            elif kinds(argument):
                places.append('    %s\\ %d) _gpupool_offer "$cur" %s ;;' % (
                    verb.name, place,
                    ' '.join(map(quoted, kinds(argument)))))
    return BASH % {
        'pids': PIDS, 'keys': quoted(' '.join(keys)),
        'verbs': ' '.join(verb.name for verb in verbs),
        'valued': '|'.join(valued), 'wrappers': '|'.join(wrappers(verbs)),
        'values': '\n'.join(values), 'options': '\n'.join(options),
        'places': '\n'.join(places),
    }


# ---- zsh ---------------------------------------------------------------------

ZSH = r'''#compdef gpupool
# Made by gpupool_docs.py.

_gpupool_pids()
{
    local -a pids
    pids=(${(f)"$(%(pids)s)"})
    compadd -a pids
}

_gpupool_keys=(%(keys)s)

_gpupool()
{
    local curcontext=$curcontext state line
    typeset -A opt_args
    _arguments -C '--help[show the help]' '--version[print the version]' \
        '1:command:->verb' '*::argument:->rest' && return
    case $state in
    verb)
        local -a verbs
        verbs=(
%(verbs)s
        )
        _describe command verbs ;;
    rest)
        case $words[1] in
%(cases)s
        esac ;;
    esac
}

_gpupool "$@"
'''


def zsh_action(option):
    actions = []
    words = []
    for kind in kinds(option):
        if kind == ':pid':
            actions.append('_gpupool_pids')
        elif kind == ':file':
            actions.append('_files')
        elif kind == ':dir':
            actions.append('_files -/')
        elif kind == ':key':
            actions.append('compadd -a _gpupool_keys')
        elif kind == ':conf':
            actions.append("compadd -S ':' -a _gpupool_keys")
        else:
            words.append(kind)
    if words:
        actions.append('compadd ' + ' '.join(words))
    if not actions:
        return ' '
    if len(actions) == 1:
        return ' ' + actions[0]
    return '{%s}' % '; '.join(actions)


def zsh_text(text):
    return re.sub(r'([\[\]:\\])', r'\\\1', text)


def zsh(verbs, keys):
    cases = []
    for verb in verbs:
        specs = []
        for option in verb.options:
            for name in option.names:
                spec = '%s[%s]' % (name, zsh_text(option.help))
                if option.takes_value:
                    spec += ':%s:%s' % (zsh_text(option.metavar or 'value'),
                                        zsh_action(option))
                specs.append(('*' if option.metavar.startswith('K:V')
                              else '') + spec)
        flags = ''
        for place, argument in enumerate(verb.arguments, 1):
            if argument.is_rest:
                flags = '-S '
                specs += ['(-):program: _command_names -e',
                          '*::argument: _normal']
            else:
                specs.append('%d:%s:%s' % (place, zsh_text(argument.metavar),
                                           zsh_action(argument)))
        cases.append('        %s)\n            _arguments %s%s ;;' % (
            verb.name, flags,
            ' \\\n                '.join(map(quoted, specs))))
    return ZSH % {
        'pids': PIDS, 'keys': ' '.join(keys),
        'verbs': '\n'.join('            ' + quoted(
            '%s:%s' % (verb.name, verb.does.replace(':', r'\:')))
            for verb in verbs),
        'cases': '\n'.join(cases),
    }


# ---- fish --------------------------------------------------------------------

def fish_quoted(text):
    return "'%s'" % text.replace('\\', '\\\\').replace("'", "\\'")


def fish_offer(found):
    """(candidates, are files among them?)"""
    words = []
    for kind in found:
        if kind == ':pid':
            words.append('(__gpupool_pids)')
        elif kind == ':key':
            words.append('(__gpupool_keys)')
        elif kind == ':conf':
            words.append('(__gpupool_keys):')
        elif kind == ':dir':
            words.append('(__fish_complete_directories)')
        elif kind != ':file':
            words.append(kind)
    return ' '.join(words), ':file' in found


def fish(verbs, keys):
    out = ['# fish completion for gpupool; made by gpupool_docs.py.',
           'function __gpupool_pids',
           '    sh -c %s' % fish_quoted(PIDS), 'end',
           'function __gpupool_keys',
           '    string split " " %s' % fish_quoted(' '.join(keys)), 'end',
           'complete -c gpupool -f',
           'complete -c gpupool -n __fish_use_subcommand -l help -d '
           "'show the help'",
           'complete -c gpupool -n __fish_use_subcommand -l version -d '
           "'print the version'"]
    for verb in verbs:
        out.append('complete -c gpupool -n __fish_use_subcommand -a %s -d %s'
                   % (verb.name, fish_quoted(verb.does)))
    for verb in verbs:
        when = fish_quoted('__fish_seen_subcommand_from ' + verb.name)
        for option in verb.options:
            line = 'complete -c gpupool -n ' + when
            for name in option.names:
                line += (' -l ' + name[2:] if name.startswith('--')
                         else ' -s ' + name[1:])
            if option.takes_value:
                words, files = fish_offer(kinds(option))
                line += ' -r' if files else ' -x'
                if words:
                    line += ' -a ' + fish_quoted(words)
                if files:
                    line += ' -F'
            out.append('%s -d %s' % (line, fish_quoted(option.help)))
        for argument in verb.arguments:
            if argument.is_rest:
                out.append("complete -c gpupool -n %s -x -a "
                           "'(__fish_complete_subcommand --fcs-skip=2)'"
                           % when)
                continue
            words, files = fish_offer(kinds(argument))
            if words or files:
                out.append('complete -c gpupool -n %s%s%s' % (
                    when, ' -F' if files else '',
                    ' -a ' + fish_quoted(words) if words else ''))
    return '\n'.join(out) + '\n'
