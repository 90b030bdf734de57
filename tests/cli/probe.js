/* Checks a report inside a browser, for report_test.py. Its value says what is wrong. */
const wrong = [], root = document.documentElement;
const all = (selector, of = document) => [...of.querySelectorAll(selector)];
const complain = (what, element) => wrong.push(what + ': ' + (element.id || element.className || element.tagName));

/* The luminance of "rgb(1, 2, 3)" by WCAG 2. */
function luminance(colour) {
  const [r, g, b] = colour.match(/[\d.]+/g).map(Number).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(a, b) {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}
function background(element) {
  for (let e = element; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (colour !== 'rgba(0, 0, 0, 0)' && colour !== 'transparent') return colour;
  }
  return 'rgb(255, 255, 255)';
}

function checkPlot(figure) {
  const box = figure.querySelector('.plot svg').getBoundingClientRect(), lines = all('.plot path.line', figure);
  if (box.width < 100 || box.height < 80) complain('too small', figure);
  if (!lines.length || lines.some(l => !/^M\d/.test(l.getAttribute('d')))) complain('no curve', figure);
  for (const line of lines)
    if (contrast(getComputedStyle(line).stroke, background(line)) < 3) complain('pale curve', figure);
  const shown = all('.x span', figure).filter(s => s.offsetWidth > 0).map(s => s.getBoundingClientRect());
  if (shown.length < 2) complain('no numbers', figure);
  for (let i = 1; i < shown.length; i++) if (shown[i].left < shown[i - 1].right + 2) complain('numbers overlap', figure);
}

function checkTabs(tabs) {
  for (const button of all('input', tabs)) {
    button.click();
    const open = all('.panel', tabs).filter(p => p.offsetHeight > 0);
    if (open.length !== 1) complain(open.length + ' panels open', tabs);
    else if (all('img', open[0]).some(i => i.getBoundingClientRect().width < 40)) complain('image too small', open[0]);
  }
}

(() => {
  let drawn = 0;
  for (const figure of all('[data-figure]')) {
    const before = wrong.length;
    if (figure.dataset.figure === 'plot') checkPlot(figure);
    else if (!all('img', figure).length) complain('no image', figure);
    for (const image of all('img', figure))
      if (!image.complete || !image.naturalWidth || !image.alt) complain('image not drawn', figure);
    drawn += wrong.length === before;
  }
  all('.tabs').forEach(checkTabs);
  all('details').forEach(d => d.open = true);
  for (const e of all('h1, h2, p, dt, dd, small, th, td, figcaption, .key li, summary, label, a, .plot span, blockquote, .prompt'))
    if (contrast(getComputedStyle(e).color, background(e)) < 4.5) complain('pale text', e);
  for (const e of all('summary, input, a, .scroll')) if (e.tabIndex < 0) complain('out of reach', e);
  for (const e of all('label')) if (!document.getElementById(e.htmlFor)) complain('label of nothing', e);
  if (root.scrollWidth > innerWidth) complain('wider than the screen', root);
  if (all('h1').length !== 1) complain('not one title', root);
  const scheme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  return {width: innerWidth, scheme, drawn, wrong: wrong.join('; ')};
})();
